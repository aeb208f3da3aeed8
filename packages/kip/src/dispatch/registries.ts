import type { DesiredRegistry } from "@kip/agent-api";

/**
 * Registry credentials of a pod's image pull secrets (parsed `.dockerconfigjson` or legacy
 * `.dockercfg` documents), merged with the installation's own registries. Earlier entries win.
 */
export function mergeRegistries(
  pullSecrets: readonly unknown[],
  own: readonly DesiredRegistry[],
): readonly DesiredRegistry[] {
  const byHost = new Map<string, DesiredRegistry>(own.map((entry) => [entry.host, entry]));
  const seen = new Set<string>();
  for (const document of pullSecrets) {
    for (const [key, entry] of Object.entries(authEntries(document))) {
      const credentials = readEntry(entry);
      const host = registryHost(key);
      if (!credentials || seen.has(host)) continue;
      seen.add(host);
      byHost.set(host, { ...byHost.get(host), host, ...credentials });
    }
  }
  return [...byHost.values()];
}

function authEntries(document: unknown): Readonly<Record<string, unknown>> {
  if (!isRecord(document)) return {};
  const auths = document["auths"];
  return isRecord(auths) ? auths : document;
}

function readEntry(
  entry: unknown,
): { readonly username: string; readonly password: string } | undefined {
  if (!isRecord(entry)) return undefined;
  const { username, password, auth } = entry;
  if (typeof username === "string" && typeof password === "string") return { username, password };
  if (typeof auth !== "string") return undefined;
  const decoded = Buffer.from(auth, "base64").toString("utf8");
  const colon = decoded.indexOf(":");
  if (colon < 1) return undefined;
  return { username: decoded.slice(0, colon), password: decoded.slice(colon + 1) };
}

/** The host that a key of a Docker configuration stands for: `https://index.docker.io/v1/` → `docker.io`. */
function registryHost(key: string): string {
  const host = key.replace(/^https?:\/\//, "").split("/")[0] ?? key;
  return host === "index.docker.io" || host === "registry-1.docker.io" ? "docker.io" : host;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

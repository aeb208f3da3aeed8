import type { DesiredRegistry } from "@kip/agent-api";

/** An account that a cell logs in with. */
export type Account = NonNullable<DesiredRegistry["accounts"]>[number];

/** An entry of an image pull secret. */
export interface SecretEntry extends Account {
  /** Host and path, for sorting the entries. */
  readonly key: string;
  /** Host with its port. It may contain wildcards. */
  readonly host: string;
  readonly path: string;
}

/** The entries of a parsed `.dockerconfigjson` or legacy `.dockercfg` document. Skips invalid ones. */
export function secretEntries(document: unknown): readonly SecretEntry[] {
  if (!isRecord(document)) return [];
  const auths = document["auths"];
  return Object.entries(isRecord(auths) ? auths : document).flatMap(([key, entry]) => {
    const account = readAccount(entry);
    return account ? [{ ...account, ...placeOf(key) }] : [];
  });
}

function readAccount(entry: unknown): Account | undefined {
  if (!isRecord(entry)) return undefined;
  const { username, password, auth } = entry;
  if (typeof username === "string" && typeof password === "string") return { username, password };
  if (typeof auth !== "string") return undefined;
  const decoded = Buffer.from(auth, "base64").toString("utf8");
  const colon = decoded.indexOf(":");
  if (colon < 1) return undefined;
  return { username: decoded.slice(0, colon), password: decoded.slice(colon + 1) };
}

/** The registry of a key in a Docker configuration: `https://index.docker.io/v1/` means all of `docker.io`. */
function placeOf(key: string): Pick<SecretEntry, "key" | "host" | "path"> {
  const [first = "", ...rest] = key.replace(/^https?:\/\//, "").split("/");
  const isHub = first === "index.docker.io" || first === "registry-1.docker.io";
  const host = isHub ? "docker.io" : first;
  const path = rest.join("/").replace(/^v[12](\/|$)/, "");
  return { key: `${host}/${path}`, host, path };
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

import type { DesiredRegistry } from "@kip/agent-api";
import type { RegistryLogIn } from "@kip/cloud";
import { parseReference, type Reference } from "@kip/oci-image";

type Account = NonNullable<DesiredRegistry["accounts"]>[number];

/** An entry of an image pull secret. */
interface SecretEntry extends Account {
  /** Host, perhaps with `*`, and path, as in image names. */
  readonly key: string;
  readonly host: string;
  readonly path: string;
}

/** The registries of these images; a name that is none has no registry. */
export function registriesOf(images: readonly string[]): readonly string[] {
  return [...new Set(images.flatMap((image) => referenceOf(image)?.registry ?? []))];
}

/**
 * What a cell is told of registries: the installation's own, and those of the pod's images with whom to log in
 * as. As with the kubelet: first the pod's image pull secrets (parsed `.dockerconfigjson` or legacy `.dockercfg`
 * documents), those for longer paths first; then the installation's own; here the cloud's last. No other
 * credentials of the secrets reach the cell.
 */
export function mergeRegistries(
  images: readonly string[],
  sources: {
    readonly pullSecrets: readonly unknown[];
    readonly own: readonly DesiredRegistry[];
    readonly logIns?: ReadonlyMap<string, RegistryLogIn>;
  },
): readonly DesiredRegistry[] {
  const { pullSecrets, own, logIns } = sources;
  const byHost = new Map(own.map((entry) => [entry.host, entry]));
  const entries = pullSecrets.flatMap(secretEntries);
  entries.sort((a, b) => (a.key === b.key ? 0 : a.key < b.key ? 1 : -1));
  for (const host of registriesOf(images)) {
    const wanted = images.map(referenceOf).filter((reference) => reference?.registry === host);
    const isFor = (entry: SecretEntry): boolean =>
      hostMatches(entry.host, host) &&
      wanted.some((reference) => reference?.repository.startsWith(entry.path));
    const accounts = entries.filter(isFor).map(toAccount);
    const logIn = byHost.get(host)?.username === undefined ? logIns?.get(host) : undefined;
    const cloud = logIn && { username: logIn.username, password: logIn.password.reveal() };
    if (accounts.length === 0 && !cloud) continue;
    const known = { ...byHost.get(host), host, ...cloud };
    byHost.set(host, accounts.length === 0 ? known : { ...known, accounts: distinct(accounts) });
  }
  return [...byHost.values()];
}

/** The name of an image, taken apart; undefined if it is none. */
export function referenceOf(image: string): Reference | undefined {
  try {
    return parseReference(image);
  } catch {
    // The agent says so, with the kubelet's reason.
    return undefined;
  }
}

function toAccount({ path, username, password }: SecretEntry): Account {
  return { ...(path !== "" && { path }), username, password };
}

function distinct(accounts: readonly Account[]): readonly Account[] {
  return [...new Map(accounts.map((account) => [JSON.stringify(account), account])).values()];
}

/** A `*` stands for any characters of one part of a host's name; parts are as many. */
function hostMatches(pattern: string, host: string): boolean {
  if (!pattern.includes("*")) return pattern === host;
  const parts = pattern
    .split(".")
    .map((part) => part.replaceAll(/[^\w*-]/g, String.raw`\$&`).replaceAll("*", "[^.:]*"));
  return new RegExp(`^${parts.join("\\.")}$`).test(host);
}

function secretEntries(document: unknown): readonly SecretEntry[] {
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

/** What a key of a Docker configuration is for: `https://index.docker.io/v1/` is `docker.io`, all of it. */
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

import { globMatches, maxGlobLength } from "@kip/base";
import { secretEntries, type Account, type SecretEntry } from "./docker-config.ts";

/** Maximum number of keys with a wildcard in one pod's pull secrets. Further ones are ignored. */
export const maxWildcardKeys = 100;

/**
 * Maximum size that keys with a wildcard add to one pod's document, characters of accounts. One key may match every registry of
 * the pod, and is then copied for each.
 */
const maxWildcardText = 1024 * 1024;

/**
 * Maximum work for comparing keys with a wildcard with one pod's registries: the sum of key length times host length,
 * characters. Comparing thousands of hosts with all keys would block kip for minutes.
 */
const maxWildcardWork = 8 * 1024 * 1024;

interface Ranked extends SecretEntry {
  /** Position in the order in which to try accounts. */
  readonly rank: number;
}

interface Wildcard extends Ranked {
  readonly parts: HostParts;
}

/**
 * The accounts in a pod's image pull secrets, by registry.
 *
 * As in the kubelet, longer paths come first, then the order of the secrets. `*` stands for any text within one part of a
 * host's name, and `?` for one character of it. Ports must be equal. A tenant controls both the secrets and the pod's images,
 * and may have any number of them. So this never compares every entry with every image or every registry.
 */
export class SecretAccounts {
  readonly #exact = new Map<string, Ranked[]>();
  readonly #wildcards: readonly Wildcard[];
  #wildcardText = 0;
  #wildcardWork = 0;

  constructor(documents: readonly unknown[]) {
    const entries = documents.flatMap(secretEntries);
    entries.sort((a, b) => (a.key === b.key ? 0 : a.key < b.key ? 1 : -1));
    const wildcards: Ranked[] = [];
    for (const [rank, entry] of entries.entries()) {
      if (isWildcard(entry.host)) wildcards.push({ ...entry, rank });
      else this.#add({ ...entry, rank });
    }
    this.#wildcards = wildcards
      .slice(0, maxWildcardKeys)
      .map((entry) => ({ ...entry, parts: splitHost(entry.host) }));
  }

  /**
   * The accounts for some repositories of a registry, in the order in which to try them.
   *
   * @param repositories sorted by UTF-16 code units, like `Array.sort()`
   */
  find(host: string, repositories: readonly string[]): readonly Account[] {
    const found = [...(this.#exact.get(host) ?? []), ...this.#matching(host)]
      .filter(({ path }) => someStartsWith(repositories, path))
      .sort((a, b) => a.rank - b.rank);
    return distinct(found.map(toAccount));
  }

  #add(entry: Ranked): void {
    const known = this.#exact.get(entry.host);
    if (known) known.push(entry);
    else this.#exact.set(entry.host, [entry]);
  }

  #matching(host: string): readonly Ranked[] {
    if (this.#wildcards.length === 0 || host.length > maxGlobLength) return [];
    const parts = splitHost(host);
    return this.#wildcards.filter((entry) => {
      if (this.#wildcardText > maxWildcardText || !isAlike(entry, parts)) return false;
      this.#wildcardWork += entry.host.length * host.length;
      if (this.#wildcardWork > maxWildcardWork || !hostMatches(entry.parts, parts)) return false;
      this.#wildcardText += entry.path.length + entry.username.length + entry.password.length;
      return true;
    });
  }
}

interface HostParts {
  readonly names: readonly string[];
  readonly port: string;
}

function isWildcard(host: string): boolean {
  return host.includes("*") || host.includes("?");
}

function splitHost(host: string): HostParts {
  const colon = host.lastIndexOf(":");
  const name = colon === -1 ? host : host.slice(0, colon);
  return { names: name.split("."), port: colon === -1 ? "" : host.slice(colon) };
}

/** Whether a key has the same number of parts and the same port as a host. */
function isAlike({ host: pattern, parts }: Wildcard, { names, port }: HostParts): boolean {
  return (
    pattern.length <= maxGlobLength && parts.port === port && parts.names.length === names.length
  );
}

function hostMatches(pattern: HostParts, host: HostParts): boolean {
  return pattern.names.every((name, index) => globMatches(name, host.names[index] ?? ""));
}

/** Whether one of the sorted texts starts with the prefix. If so, it is the first one that is not less than the prefix. */
function someStartsWith(sorted: readonly string[], prefix: string): boolean {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] ?? "") < prefix) low = middle + 1;
    else high = middle;
  }
  return sorted[low]?.startsWith(prefix) ?? false;
}

function toAccount({ path, username, password }: SecretEntry): Account {
  return path === "" ? { username, password } : { path, username, password };
}

function distinct(accounts: readonly Account[]): readonly Account[] {
  return [...new Map(accounts.map((account) => [JSON.stringify(account), account])).values()];
}

import { hash, randomBytes } from "node:crypto";

/** Makes keys unpredictable. Otherwise users could find two sets of namespaces with the same key. */
const secret = randomBytes(32).toString("hex");

/** The namespaces whose policies name a group, with a count for each. "" is for policies of administrators. */
export class Owners {
  readonly #counts = new Map<string, number>();
  #key = 0n;

  /** A hash of the set of owners. Does not depend on their counts and order. */
  get key(): bigint {
    return this.#key;
  }

  /** Number of owners. */
  get size(): number {
    return this.#counts.size;
  }

  /** Names of the owners. */
  names(): Iterable<string> {
    return this.#counts.keys();
  }

  /** Counts a policy of a namespace that names the group (1), or that no longer does (-1). */
  note(namespace: string, change: 1 | -1): void {
    const before = this.#counts.get(namespace) ?? 0;
    const after = Math.max(0, before + change);
    if (after > 0) this.#counts.set(namespace, after);
    else this.#counts.delete(namespace);
    if (before > 0 !== after > 0) this.#key ^= keyOf(namespace);
  }
}

function keyOf(namespace: string): bigint {
  return hash("sha256", secret + namespace, "buffer").readBigUInt64BE();
}

import { hash, randomBytes } from "node:crypto";

/** Makes keys unpredictable: users could otherwise choose namespaces whose keys add up to the key of others. */
const secret = randomBytes(32).toString("hex");

/** The namespaces whose policies name a group, and how many times each; "" stands for policies of administrators. */
export class Owners {
  readonly #counts = new Map<string, number>();
  #key = 0n;

  /** A hash of the owners, whatever their counts and order. */
  get key(): bigint {
    return this.#key;
  }

  /** How many there are. */
  get size(): number {
    return this.#counts.size;
  }

  /** Names of the owners. */
  names(): Iterable<string> {
    return this.#counts.keys();
  }

  /** Notes that policies of a namespace name the group, or no longer do. */
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

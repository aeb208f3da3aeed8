/**
 * How many bytes the rules of the pods of one namespace may take. Pods that the same policies select share theirs, so users decide how many
 * different ones there are: a policy with 16,384 address blocks takes 1 MB again for each pod that also has a policy of its own.
 */
export const maxRulesBytes = 32 * 1024 * 1024;

/** Counts what the rules of each namespace take in kip's memory. */
export class RulesBudget {
  readonly #most: number;
  readonly #bytes = new Map<string, number>();

  constructor(most: number) {
    this.#most = most;
  }

  /**
   * Whether a namespace has no room for more rules.
   *
   * @param less bytes that do not count, as the rules that have them are to be replaced
   */
  isFull(namespace: string, less = 0): boolean {
    return (this.#bytes.get(namespace) ?? 0) - less >= this.#most;
  }

  /** Adds the bytes of new rules, or subtracts those of rules that are gone. @returns whether the namespace was full and no longer is */
  count(namespace: string, bytes: number): boolean {
    const wasFull = this.isFull(namespace);
    const sum = (this.#bytes.get(namespace) ?? 0) + bytes;
    if (sum > 0) this.#bytes.set(namespace, sum);
    else this.#bytes.delete(namespace);
    return wasFull && !this.isFull(namespace);
  }
}

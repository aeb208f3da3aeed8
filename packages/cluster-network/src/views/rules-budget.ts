/**
 * The budget for the rules of the pods of one namespace, bytes. Pods that the same policies select share their rules. So users decide how
 * many different rules there are: a policy with 16,384 IP blocks takes another 1 MB for each pod that also has a separate policy.
 */
export const maxRulesBytes = 32 * 1024 * 1024;

/** Counts the memory that the rules of each namespace take in kip. */
export class RulesBudget {
  readonly #most: number;
  readonly #bytes = new Map<string, number>();

  constructor(most: number) {
    this.#most = most;
  }

  /**
   * Whether a namespace has used up its budget.
   *
   * @param less bytes that do not count, because their rules will be replaced
   */
  isFull(namespace: string, less = 0): boolean {
    return (this.#bytes.get(namespace) ?? 0) - less >= this.#most;
  }

  /** Adds the bytes of new rules, or subtracts those of removed ones. @returns whether the namespace was full and no longer is */
  count(namespace: string, bytes: number): boolean {
    const wasFull = this.isFull(namespace);
    const sum = (this.#bytes.get(namespace) ?? 0) + bytes;
    if (sum > 0) this.#bytes.set(namespace, sum);
    else this.#bytes.delete(namespace);
    return wasFull && !this.isFull(namespace);
  }
}

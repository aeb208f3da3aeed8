/**
 * How many bytes the rules of one namespace's pods may take. Pods that the same policies select share them, so it is users who decide
 * how many there are: 16,384 address blocks take 1 MB, once for each pod that has a policy of its own beside them.
 */
export const mostOfRules = 32 * 1024 * 1024;

/** What the rules of each namespace take in kip. */
export class RulesRoom {
  readonly #most: number;
  readonly #bytes = new Map<string, number>();

  constructor(most: number) {
    this.#most = most;
  }

  /**
   * Whether a namespace has no room for more rules.
   *
   * @param less bytes that do not count: those of rules that the new ones are to replace
   */
  isFull(namespace: string, less = 0): boolean {
    return (this.#bytes.get(namespace) ?? 0) - less >= this.#most;
  }

  /** Counts rules that were made, or that are gone with a negative number. @returns whether there is room now that was not there before */
  count(namespace: string, bytes: number): boolean {
    const wasFull = this.isFull(namespace);
    const sum = (this.#bytes.get(namespace) ?? 0) + bytes;
    if (sum > 0) this.#bytes.set(namespace, sum);
    else this.#bytes.delete(namespace);
    return wasFull && !this.isFull(namespace);
  }
}

/** Runs tasks of one key one at a time, in the order in which they were added. Keeps nothing of a key without tasks. */
export class SerialQueue {
  readonly #tails = new Map<string, Promise<unknown>>();

  /**
   * Runs `task` when all earlier tasks of the key have ended, however they ended.
   *
   * @throws what `task` throws
   */
  async run<T>(task: () => Promise<T>, key = ""): Promise<T> {
    const before = this.#tails.get(key);
    const result = before ? before.then(task, task) : task();
    const tail = result.catch(() => {}); // its caller sees the error
    this.#tails.set(key, tail);
    try {
      return await result;
    } finally {
      if (this.#tails.get(key) === tail) this.#tails.delete(key);
    }
  }

  /** Resolves when the tasks of the key that were added so far have ended. */
  async idle(key = ""): Promise<void> {
    await this.#tails.get(key);
  }
}

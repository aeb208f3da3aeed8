import { untilAborted } from "@kip/base";

/** Lets one at a time work under a key, in the order they came. */
export class KeyedLock {
  readonly #tails = new Map<string, Promise<void>>();

  /**
   * Runs `work` when all earlier work under the key has ended, however it ended.
   *
   * @throws the signal's reason if it aborts before that
   */
  async run<T>(key: string, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const before = this.#tails.get(key) ?? Promise.resolve();
    const { promise, resolve } = Promise.withResolvers<void>();
    const tail = before.then(() => promise);
    this.#tails.set(key, tail);
    try {
      await untilAborted(before, signal);
      return await work();
    } finally {
      resolve();
      if (this.#tails.get(key) === tail) this.#tails.delete(key);
    }
  }
}

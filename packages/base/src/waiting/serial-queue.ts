import { untilAborted } from "./until-aborted.ts";

/** Runs tasks of one key one at a time, in the order in which they were added. Keeps nothing of a key without tasks. */
export class SerialQueue {
  readonly #tails = new Map<string, Promise<void>>();

  /**
   * Runs `task` when all earlier tasks of the key have ended, however they ended.
   *
   * @param signal takes a task that has not begun out of the queue; one that has begun is not affected
   * @throws what `task` throws; the signal's reason if it aborts before the task begins
   */
  async run<T>(task: () => Promise<T>, key = "", signal?: AbortSignal): Promise<T> {
    const before = this.#tails.get(key);
    const { promise: tail, resolve: finish } = Promise.withResolvers<void>();
    // Tasks behind one that gave up still wait for those before it.
    const whole = before ? before.then(() => tail) : tail;
    this.#tails.set(key, whole);
    // A task that gave up may be the last one while those before it still run.
    void whole.then(() => {
      if (this.#tails.get(key) === whole) this.#tails.delete(key);
    });
    try {
      signal?.throwIfAborted();
      if (before) await untilAborted(before, signal);
      return await task();
    } finally {
      finish();
    }
  }

  /** Resolves when the tasks of the key that were added so far have ended. */
  async idle(key = ""): Promise<void> {
    await this.#tails.get(key);
  }
}

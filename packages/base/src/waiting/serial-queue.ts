import { untilAborted } from "./until-aborted.ts";

/** Runs tasks of one key one at a time, in the order in which they were added. A key without tasks uses no memory. */
export class SerialQueue {
  readonly #tails = new Map<string, Promise<void>>();

  /**
   * Runs `task` once all earlier tasks of the key have ended, whether they succeeded or failed.
   *
   * @param signal removes a task from the queue before it starts. Does not affect a running task
   * @throws what `task` throws; the signal's reason if it aborts before the task starts
   */
  async run<T>(task: () => Promise<T>, key = "", signal?: AbortSignal): Promise<T> {
    const before = this.#tails.get(key);
    const { promise: tail, resolve: finish } = Promise.withResolvers<void>();
    // Tasks behind an aborted one still wait for those before it.
    const whole = before ? before.then(() => tail) : tail;
    this.#tails.set(key, whole);
    // An aborted task may be the last one while those before it still run.
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

  /** Resolves when all tasks of the key that were added so far have ended. */
  async idle(key = ""): Promise<void> {
    await this.#tails.get(key);
  }
}

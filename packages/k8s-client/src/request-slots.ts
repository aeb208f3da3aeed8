/**
 * Lets a number of requests run at once; the others wait here, first come first served, where they
 * hold no connection, timer or encoded body.
 */
export class RequestSlots {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  /** @param count 1 or more */
  constructor(count: number) {
    this.#free = count;
  }

  /** Runs a task when a slot is free. @throws the signal's reason, if it aborts before */
  async run<T>(task: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => void this.#waiting.push(resolve));
    try {
      signal?.throwIfAborted();
      return await task();
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#free++;
    }
  }
}

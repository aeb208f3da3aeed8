/** How a request waits for its slot. */
export interface SlotWish {
  readonly signal?: AbortSignal | undefined;
  /** It goes before those that are not. @default false */
  readonly isUrgent?: boolean | undefined;
}

/**
 * Lets a number of requests run at once; the others wait here, first come first served among the
 * urgent ones and then among the rest, where they hold no connection, timer or encoded body.
 */
export class RequestSlots {
  #free: number;
  readonly #urgent: (() => void)[] = [];
  readonly #waiting: (() => void)[] = [];

  /** @param count 1 or more */
  constructor(count: number) {
    this.#free = count;
  }

  /** Runs a task when a slot is free. @throws the signal's reason, if it aborts before */
  async run<T>(task: () => Promise<T>, { signal, isUrgent }: SlotWish): Promise<T> {
    const queue = isUrgent === true ? this.#urgent : this.#waiting;
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => void queue.push(resolve));
    try {
      signal?.throwIfAborted();
      return await task();
    } finally {
      const next = this.#urgent.shift() ?? this.#waiting.shift();
      if (next) next();
      else this.#free++;
    }
  }
}

/** How a request waits for its slot. */
export interface SlotWish {
  readonly signal?: AbortSignal | undefined;
  /** It goes before those that are not. @default false */
  readonly isUrgent?: boolean | undefined;
}

/** Urgent requests in a row after which another one has its turn: they may have no end. */
const maxUrgentRun = 3;

/**
 * Lets a number of requests run at once; the others wait here, first come first served among the
 * urgent ones and then among the rest, where they hold no connection, timer or encoded body. Of four
 * that go on one is of the rest, if any.
 */
export class RequestSlots {
  #free: number;
  readonly #urgent: (() => void)[] = [];
  readonly #waiting: (() => void)[] = [];
  #urgentRun = 0;

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
      const next = this.#next();
      if (next) next();
      else this.#free++;
    }
  }

  #next(): (() => void) | undefined {
    if (this.#urgentRun === maxUrgentRun || this.#urgent.length === 0) {
      this.#urgentRun = 0;
      return this.#waiting.shift() ?? this.#urgent.shift();
    }
    this.#urgentRun++;
    return this.#urgent.shift();
  }
}

import type { Clock } from "@kip/base";

/** How a request waits for its slot. */
export interface SlotRequest {
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
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #urgent: Turn[] = [];
  readonly #waiting: Turn[] = [];
  #urgentRun = 0;

  /** @param count 1 or more */
  constructor(count: number, clock: Pick<Clock, "monotonic">) {
    this.#free = count;
    this.#clock = clock;
  }

  /** How long the request that has waited the longest for its turn has waited, milliseconds; 0 if none waits. */
  get longestWaitMs(): number {
    const first = [this.#urgent, this.#waiting].flatMap(
      (queue) => queue.find(({ isGone }) => !isGone) ?? [],
    );
    const now = this.#clock.monotonic();
    return Math.max(0, ...first.map(({ since }) => now - since));
  }

  /** Runs a task when a slot is free. @throws the signal's reason, as soon as it aborts before that */
  async run<T>(task: () => Promise<T>, { signal, isUrgent }: SlotRequest): Promise<T> {
    signal?.throwIfAborted();
    if (this.#free > 0) this.#free--;
    else await this.#turn(isUrgent === true ? this.#urgent : this.#waiting, signal);
    try {
      signal?.throwIfAborted();
      return await task();
    } finally {
      const next = this.#next();
      if (next) next.take();
      else this.#free++;
    }
  }

  async #turn(queue: Turn[], signal: AbortSignal | undefined): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const turn = { isGone: false, since: this.#clock.monotonic(), take: resolve };
    const leave = (): void => {
      turn.isGone = true; // it stays in the queue until its turn: taking it out takes a search
      reject(signal?.reason instanceof Error ? signal.reason : new Error("Aborted"));
    };
    signal?.addEventListener("abort", leave, { once: true });
    queue.push(turn);
    try {
      await promise;
    } finally {
      signal?.removeEventListener("abort", leave);
    }
  }

  #next(): Turn | undefined {
    for (;;) {
      const turn = this.#first();
      if (turn?.isGone !== true) return turn;
    }
  }

  #first(): Turn | undefined {
    if (this.#urgentRun === maxUrgentRun || this.#urgent.length === 0) {
      this.#urgentRun = 0;
      return this.#waiting.shift() ?? this.#urgent.shift();
    }
    this.#urgentRun++;
    return this.#urgent.shift();
  }
}

/** A request that waits. */
interface Turn {
  /** Its signal has aborted. */
  readonly isGone: boolean;
  /** By the monotonic clock, milliseconds. */
  readonly since: number;
  readonly take: () => void;
}

/** A function that waits until the next request may go, so that at most `qps` go per second. */
export function requestPacer(
  clock: Clock,
  qps: number | undefined,
): (signal: AbortSignal) => Promise<void> {
  if (qps === undefined) return () => Promise.resolve();
  const spacingMs = 1000 / qps;
  let nextAt = 0;
  return async (signal) => {
    const now = clock.monotonic();
    // A burst of one second's worth is let through after an idle time.
    nextAt = Math.max(nextAt + spacingMs, now - 1000 + spacingMs);
    if (nextAt > now) await clock.sleep(nextAt - now, signal);
  };
}

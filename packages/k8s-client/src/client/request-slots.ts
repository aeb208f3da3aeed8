import { Fifo, type Clock } from "@kip/base";

/** Options of a request that waits for a slot. */
export interface SlotRequest {
  readonly signal?: AbortSignal | undefined;
  /** Whether it goes before requests that are not urgent. @default false */
  readonly isUrgent?: boolean | undefined;
  /** Whether it goes after all others. Ignored if it is urgent. @default false */
  readonly isDeferrable?: boolean | undefined;
}

/** Most urgent requests in a row. Then another request has its turn, because urgent ones may never end. */
const maxUrgentRun = 3;
/** Most requests in a row of those that are not urgent, before a deferrable one has its turn. */
const maxUsualRun = 31;

/**
 * Limits the number of concurrent requests. Waiting requests hold no connection, timer or encoded body. Urgent ones go first,
 * in order of arrival, then the others, the deferrable ones last. Out of every four requests, at least one is not urgent, and
 * out of 32 of those, at least one is deferrable, if any is waiting.
 */
export class RequestSlots {
  #free: number;
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #urgent = new Fifo<Turn>();
  readonly #usual = new Fifo<Turn>();
  readonly #deferrable = new Fifo<Turn>();
  #urgentRun = 0;
  #usualRun = 0;

  /** @param count 1 or more */
  constructor(count: number, clock: Pick<Clock, "monotonic">) {
    this.#free = count;
    this.#clock = clock;
  }

  /** How long the oldest waiting request has waited, milliseconds. 0 if none is waiting. */
  get longestWaitMs(): number {
    const queues = [this.#urgent, this.#usual, this.#deferrable];
    const now = this.#clock.monotonic();
    return Math.max(...queues.map((queue) => now - (firstOf(queue)?.since ?? now)));
  }

  /** Runs a task once a slot is free. @throws the signal's reason, as soon as it aborts before the task starts */
  async run<T>(task: () => Promise<T>, request: SlotRequest): Promise<T> {
    const { signal } = request;
    signal?.throwIfAborted();
    if (this.#free > 0) this.#free--;
    else await this.#turn(this.#queueOf(request), signal);
    try {
      signal?.throwIfAborted();
      return await task();
    } finally {
      const next = this.#next();
      if (next) next.take();
      else this.#free++;
    }
  }

  #queueOf({ isUrgent, isDeferrable }: SlotRequest): Fifo<Turn> {
    if (isUrgent === true) return this.#urgent;
    return isDeferrable === true ? this.#deferrable : this.#usual;
  }

  async #turn(queue: Fifo<Turn>, signal: AbortSignal | undefined): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const turn = { isGone: false, since: this.#clock.monotonic(), take: resolve };
    const leave = (): void => {
      turn.isGone = true; // stays in the queue until it is the first, because removing it takes a search
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
    const urgent = this.#urgentRun === maxUrgentRun ? undefined : takeFrom(this.#urgent);
    if (urgent) {
      this.#urgentRun++;
      return urgent;
    }
    this.#urgentRun = 0;
    const usual = this.#usualRun === maxUsualRun ? undefined : takeFrom(this.#usual);
    if (usual) {
      this.#usualRun++;
      return usual;
    }
    this.#usualRun = 0;
    return takeFrom(this.#deferrable) ?? takeFrom(this.#usual) ?? takeFrom(this.#urgent);
  }
}

/** The first request of a queue that still waits. Drops those before it whose signals have aborted. */
function firstOf(queue: Fifo<Turn>): Turn | undefined {
  while (queue.first?.isGone === true) queue.shift();
  return queue.first;
}

function takeFrom(queue: Fifo<Turn>): Turn | undefined {
  return firstOf(queue) && queue.shift();
}

/** A waiting request. */
interface Turn {
  /** Whether its signal has aborted. */
  readonly isGone: boolean;
  /** When it started to wait, milliseconds of the monotonic clock. */
  readonly since: number;
  readonly take: () => void;
}

/** Makes a function that delays each request, so that at most `qps` start per second. */
export function requestPacer(
  clock: Clock,
  qps: number | undefined,
): (signal: AbortSignal) => Promise<void> {
  if (qps === undefined) return () => Promise.resolve();
  const spacingMs = 1000 / qps;
  let nextAt = 0;
  return async (signal) => {
    const now = clock.monotonic();
    // After an idle time, allow a burst of one second's worth of requests.
    nextAt = Math.max(nextAt + spacingMs, now - 1000 + spacingMs);
    if (nextAt > now) await clock.sleep(nextAt - now, signal);
  };
}

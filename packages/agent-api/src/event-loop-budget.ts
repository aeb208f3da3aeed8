import type { Clock } from "@kip/base";

/** The share of the process's one thread that a budget gives, in the long run. */
const share = 0.03;
/** What may be used at once, milliseconds of processor time. */
const burstMs = 300;

/**
 * What a piece of a body costs before anybody reads it: TLS, HTTP/2 and events, milliseconds of processor time. A hostile cell sends
 * pieces of one byte.
 */
export const pieceCostMs = 0.005;

/**
 * How much of the event loop one peer may use. Work that it causes is charged, in milliseconds of this thread's
 * processor time; what is charged comes back at 3 % of the time that passes. A peer that used too much waits in
 * {@link settle}; no other peer does.
 *
 * Processor time is measured, so a machine that is busy otherwise costs an honest peer nothing.
 */
export class EventLoopBudget {
  readonly #clock: Pick<Clock, "monotonic" | "sleep">;
  #creditMs = burstMs;
  #settledAt: number;

  constructor(clock: Pick<Clock, "monotonic" | "sleep">) {
    this.#clock = clock;
    this.#settledAt = clock.monotonic();
  }

  /** Charges work that is not measured, milliseconds. */
  charge(ms: number): void {
    this.#creditMs -= ms;
  }

  /** Does the work, which must not be asynchronous, and charges what it takes; if it throws, too. */
  spend<T>(work: () => T): T {
    const before = process.threadCpuUsage();
    try {
      return work();
    } finally {
      const { user, system } = process.threadCpuUsage(before);
      this.charge((user + system) / 1000);
    }
  }

  /**
   * Resolves when the peer has not used more than its share, mostly at once.
   *
   * @throws the signal's reason when it aborts
   */
  async settle(signal: AbortSignal): Promise<void> {
    const ms = this.#overdrawnMs();
    if (ms > 0) await this.#clock.sleep(ms / share, signal);
  }

  /**
   * As {@link settle}, for who asks often.
   *
   * @returns undefined if the peer has not used more than its share; else a promise that resolves also when the signal aborts
   */
  wait(signal: AbortSignal): Promise<void> | undefined {
    if (this.#creditMs >= 0 || this.#overdrawnMs() <= 0) return undefined;
    return this.settle(signal).catch(() => {});
  }

  #overdrawnMs(): number {
    const now = this.#clock.monotonic();
    this.#creditMs = Math.min(burstMs, this.#creditMs + (now - this.#settledAt) * share);
    this.#settledAt = now;
    return -this.#creditMs;
  }
}

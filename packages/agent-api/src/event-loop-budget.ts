import type { Clock } from "@kip/base";

/** The long-term share of the process's single thread for one budget. */
const share = 0.03;
/** CPU time that may be used at once, milliseconds. */
const burstMs = 300;

/**
 * CPU time of TLS, HTTP/2 and events for a piece of a body, before anything reads it, milliseconds. A hostile cell sends pieces
 * of one byte.
 */
export const pieceCostMs = 0.005;

/**
 * Limits how much of the event loop one peer may use. Work that it causes is charged as CPU time of this thread in
 * milliseconds. Credit comes back at 3 % of elapsed time. If a peer used too much, only that peer has to wait in
 * {@link settle}.
 *
 * CPU time is measured, so a busy machine costs an honest peer nothing.
 */
export class EventLoopBudget {
  readonly #clock: Pick<Clock, "monotonic" | "sleep">;
  #creditMs = burstMs;
  #settledAt: number;

  constructor(clock: Pick<Clock, "monotonic" | "sleep">) {
    this.#clock = clock;
    this.#settledAt = clock.monotonic();
  }

  /** Charges CPU time that is not measured, milliseconds. */
  charge(ms: number): void {
    this.#creditMs -= ms;
  }

  /** Runs synchronous work and charges its CPU time, even if it throws. */
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
   * Resolves when the peer is within its share, which is usually at once.
   *
   * @throws the signal's reason when it aborts
   */
  async settle(signal: AbortSignal): Promise<void> {
    const ms = this.#overdrawnMs();
    if (ms > 0) await this.#clock.sleep(ms / share, signal);
  }

  /**
   * Like {@link settle}, for frequent callers.
   *
   * @returns undefined if the peer is within its share; otherwise a promise, which also resolves when the signal aborts
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

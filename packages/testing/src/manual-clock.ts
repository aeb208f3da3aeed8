import type { Clock } from "@kip/base";

interface Sleeper {
  readonly atMs: number;
  readonly wake: () => void;
}

/** A clock that only advances when a test advances it. */
export class ManualClock implements Clock {
  #monotonicMs = 0;
  #offsetMs: number;
  readonly #sleepers = new Set<Sleeper>();

  /** @param nowMs time of day at the start, milliseconds since the Unix epoch */
  constructor(nowMs: number = Date.UTC(2030, 0, 1)) {
    this.#offsetMs = nowMs;
  }

  now(): number {
    return this.#offsetMs + this.#monotonicMs;
  }

  monotonic(): number {
    return this.#monotonicMs;
  }

  /** Number of pending `sleep` calls. */
  get sleepers(): number {
    return this.#sleepers.size;
  }

  async sleep(ms: number, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    await new Promise<void>((resolve, reject) => {
      const end = (finish: () => void): void => {
        this.#sleepers.delete(sleeper);
        signal?.removeEventListener("abort", onAbort);
        finish();
      };
      const onAbort = (): void =>
        end(() => reject(signal?.reason instanceof Error ? signal.reason : new Error("Aborted")));
      const sleeper: Sleeper = { atMs: this.#monotonicMs + ms, wake: () => end(resolve) };
      this.#sleepers.add(sleeper);
      signal?.addEventListener("abort", onAbort, { once: true });
    });
  }

  /**
   * Advances the clock by `ms` milliseconds. Sleepers wake in the order of their times, and may sleep again within this call.
   */
  async advance(ms: number): Promise<void> {
    const endMs = this.#monotonicMs + ms;
    await settle();
    for (let next = this.#nextUntil(endMs); next; next = this.#nextUntil(endMs)) {
      this.#monotonicMs = Math.max(this.#monotonicMs, next.atMs);
      next.wake();
      await settle();
    }
    this.#monotonicMs = endMs;
  }

  /** Simulates a suspended process: time passes, and sleepers whose time has come only wake with the next `advance`. */
  suspend(ms: number): void {
    this.#monotonicMs += ms;
  }

  /** Sets the machine's clock forward or back. The time of day changes, but no time passes. */
  step(ms: number): void {
    this.#offsetMs += ms;
  }

  #nextUntil(endMs: number): Sleeper | undefined {
    const due = [...this.#sleepers].filter(({ atMs }) => atMs <= endMs);
    return due.sort((a, b) => a.atMs - b.atMs)[0];
  }
}

/** Lets pending promises and immediates run. Real input and output may take longer. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
}

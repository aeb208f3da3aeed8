import type { Clock } from "@kip/base";

interface Sleeper {
  readonly at: number;
  readonly wake: () => void;
}

/** A clock that stands still until a test moves it. */
export class ManualClock implements Clock {
  #monotonic = 0;
  #offset: number;
  readonly #sleepers = new Set<Sleeper>();

  /** @param now milliseconds since the epoch at the start */
  constructor(now: number = Date.UTC(2030, 0, 1)) {
    this.#offset = now;
  }

  now(): number {
    return this.#offset + this.#monotonic;
  }

  monotonic(): number {
    return this.#monotonic;
  }

  /** How many wait. */
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
      const sleeper: Sleeper = { at: this.#monotonic + ms, wake: () => end(resolve) };
      this.#sleepers.add(sleeper);
      signal?.addEventListener("abort", onAbort, { once: true });
    });
  }

  /** Lets time pass; whoever wakes meanwhile runs, and may sleep again, before it goes on. */
  async advance(ms: number): Promise<void> {
    const end = this.#monotonic + ms;
    await settled();
    for (let next = this.#next(end); next; next = this.#next(end)) {
      this.#monotonic = Math.max(this.#monotonic, next.at);
      next.wake();
      await settled();
    }
    this.#monotonic = end;
  }

  /** The process stands still: time passes, and whoever is due wakes only with the next `advance`. */
  standStill(ms: number): void {
    this.#monotonic += ms;
  }

  /** Somebody sets the machine's clock: the time of day jumps, no time passes. */
  step(ms: number): void {
    this.#offset += ms;
  }

  #next(end: number): Sleeper | undefined {
    const due = [...this.#sleepers].filter(({ at }) => at <= end).sort((a, b) => a.at - b.at);
    return due[0];
  }
}

/** What can go on without time passing has gone on; promises in a row count, real input and output does not. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
}

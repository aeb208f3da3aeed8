import type { Clock } from "@kip/base";

/** The time something may take to end. It can be shortened while it runs, never lengthened. */
export class GracePeriod {
  readonly #clock: Clock;
  readonly #waiting = new Set<() => void>();
  #endMs: number;
  #isForced: boolean;

  /** @param graceMs milliseconds from now, 0 or more */
  constructor(clock: Clock, graceMs: number) {
    this.#clock = clock;
    this.#endMs = clock.now() + graceMs;
    this.#isForced = graceMs === 0;
  }

  /** Whether the period was set to 0: end at once, politeness is not wanted. */
  get isForced(): boolean {
    return this.#isForced;
  }

  /** When it ends, milliseconds since the epoch. */
  get endMs(): number {
    return this.#endMs;
  }

  /** Milliseconds left, 0 or more. */
  remainingMs(): number {
    return Math.max(0, this.#endMs - this.#clock.now());
  }

  /** Lets it end so many milliseconds from now, if that is earlier. */
  shorten(graceMs: number): void {
    const endMs = this.#clock.now() + graceMs;
    if (graceMs === 0) this.#isForced = true;
    // A period of 0 also ends what was given longer than the period.
    if (endMs >= this.#endMs && graceMs > 0) return;
    this.#endMs = Math.min(endMs, this.#endMs);
    for (const again of this.#waiting) again();
  }

  /**
   * A signal that aborts when the period is over.
   *
   * @param atLeastMs it lasts so long from now, unless the period is forced
   */
  limit(atLeastMs = 0): { readonly signal: AbortSignal } & Disposable {
    const over = new AbortController();
    const earliestMs = this.#clock.now() + atLeastMs;
    let timer = new AbortController();
    const again = (): void => {
      timer.abort();
      timer = new AbortController();
      const endMs = this.#isForced ? this.#endMs : Math.max(this.#endMs, earliestMs);
      const restMs = Math.max(0, endMs - this.#clock.now());
      this.#clock.sleep(restMs, timer.signal).then(
        () => over.abort(),
        () => {},
      );
    };
    this.#waiting.add(again);
    again();
    return {
      signal: over.signal,
      [Symbol.dispose]: () => {
        timer.abort();
        this.#waiting.delete(again);
      },
    };
  }
}

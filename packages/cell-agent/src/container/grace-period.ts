import { pause, type Clock } from "@kip/base";
import { earlierEnd, type End } from "../state/pod-end.ts";

/**
 * A time limit for ending something. It can be shortened while it runs, but not extended. Setting the machine's clock has no
 * effect on its length.
 */
export class GracePeriod {
  readonly #clock: Clock;
  #end: End;
  /** The same time by the monotonic clock. */
  #untilMs: number;
  /** Aborts when the period is shortened. */
  #shortened = new AbortController();

  constructor(clock: Clock, end: End) {
    this.#clock = clock;
    this.#end = end;
    this.#untilMs = this.#onMonotonic(end);
  }

  /** When it ends, milliseconds since the Unix epoch. */
  get endMs(): number {
    return this.#end.endMs;
  }

  /** Remaining milliseconds, 0 or more. */
  remainingMs(): number {
    return Math.max(0, this.#untilMs - this.#clock.monotonic());
  }

  /** Moves the end to this time, if that is earlier. */
  shorten(end: End): void {
    const earlier = earlierEnd(this.#end, end);
    if (earlier === this.#end) return;
    this.#end = earlier;
    this.#untilMs = Math.min(this.#untilMs, this.#onMonotonic(earlier));
    this.#shortened.abort(shortened);
    this.#shortened = new AbortController();
  }

  /**
   * Waits until the period is over, or the signal aborts.
   *
   * @param atLeastMs minimum wait from now, however short the period is
   * @returns whether it is over; false if the signal aborted first
   */
  async passes(signal: AbortSignal, atLeastMs = 0): Promise<boolean> {
    const earliestMs = this.#clock.monotonic() + atLeastMs;
    for (;;) {
      const atMs = Math.max(this.#untilMs, earliestMs);
      const either = AbortSignal.any([signal, this.#shortened.signal]);
      if (await pause(Math.max(0, atMs - this.#clock.monotonic()), this.#clock, either))
        return true;
      if (signal.aborted) return false;
    }
  }

  #onMonotonic({ endMs }: End): number {
    return this.#clock.monotonic() + endMs - this.#clock.now();
  }

  /** A signal that aborts when the period is over. */
  limit(): { readonly signal: AbortSignal } & Disposable {
    const over = new AbortController();
    const done = new AbortController();
    void this.passes(done.signal).then((isOver) => {
      if (isOver) over.abort();
    });
    return { signal: over.signal, [Symbol.dispose]: () => done.abort() };
  }
}

/** Created once, because aborting without a reason creates one with a stack trace. */
const shortened = new DOMException("The period was shortened", "AbortError");

import { pause, type Clock } from "@kip/base";
import { earlierEnd, type End } from "../state/pod-end.ts";

/** The time something may take to end. It can be shortened while it runs, never lengthened. */
export class GracePeriod {
  readonly #clock: Clock;
  #end: End;
  /** Aborts when the period is shortened. */
  #shortened = new AbortController();

  constructor(clock: Clock, end: End) {
    this.#clock = clock;
    this.#end = end;
  }

  /** When it ends, milliseconds since the epoch. */
  get endMs(): number {
    return this.#end.endMs;
  }

  /** Milliseconds left, 0 or more. */
  remainingMs(): number {
    return Math.max(0, this.#end.endMs - this.#clock.now());
  }

  /** Lets it end then, if that is earlier. */
  shorten(end: End): void {
    const earlier = earlierEnd(this.#end, end);
    if (earlier === this.#end) return;
    this.#end = earlier;
    this.#shortened.abort(shortened);
    this.#shortened = new AbortController();
  }

  /**
   * Waits until the period is over, or the signal aborts.
   *
   * @param atLeastMs it lasts so long from now, however short the period is
   * @returns whether it is over, false if the signal aborted first
   */
  async passes(signal: AbortSignal, atLeastMs = 0): Promise<boolean> {
    const earliestMs = this.#clock.now() + atLeastMs;
    for (;;) {
      const atMs = Math.max(this.#end.endMs, earliestMs);
      const either = AbortSignal.any([signal, this.#shortened.signal]);
      if (await pause(Math.max(0, atMs - this.#clock.now()), this.#clock, either)) return true;
      if (signal.aborted) return false;
    }
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

/** Made once: an abort without a reason makes one with a stack trace. */
const shortened = new DOMException("The period was shortened", "AbortError");

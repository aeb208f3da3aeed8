import type { Clock } from "@kip/base";

/** How long a template is not tried again after its making has taken too long, milliseconds; doubled each time. */
const firstPauseMs = 10 * 60_000;
const longestPauseMs = 2 * 3600_000;

/** Templates that are not made: some indefinitely, and those whose making took too long for a while, as the computer was busy. */
export class GivenUp {
  readonly #clock: Clock;
  readonly #untilMs = new Map<string, number>();
  readonly #pauseMs = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  has(key: string): boolean {
    return (this.#untilMs.get(key) ?? Number.NEGATIVE_INFINITY) > this.#clock.monotonic();
  }

  /** Nothing more is tried for this template. */
  add(key: string): void {
    this.#untilMs.set(key, Number.POSITIVE_INFINITY);
  }

  /** Its making took too long: it may be tried again after a pause, which is twice as long each time. */
  postpone(key: string): void {
    const pauseMs = this.#pauseMs.get(key) ?? firstPauseMs;
    this.#pauseMs.set(key, Math.min(2 * pauseMs, longestPauseMs));
    this.#untilMs.set(key, this.#clock.monotonic() + pauseMs);
  }
}

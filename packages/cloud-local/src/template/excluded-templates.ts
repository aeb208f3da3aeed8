import type { Clock } from "@kip/base";

/** How long a template is not retried after a build took too long, milliseconds. Doubled each time. */
const firstPauseMs = 10 * 60_000;
const longestPauseMs = 2 * 3600_000;

/**
 * Templates that are not built. Some are excluded indefinitely. Others are excluded for a while, because their build took too
 * long on a busy computer.
 */
export class ExcludedTemplates {
  readonly #clock: Clock;
  readonly #untilMs = new Map<string, number>();
  readonly #pauseMs = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  has(key: string): boolean {
    return (this.#untilMs.get(key) ?? Number.NEGATIVE_INFINITY) > this.#clock.monotonic();
  }

  /** Excludes a template indefinitely. */
  add(key: string): void {
    this.#untilMs.set(key, Number.POSITIVE_INFINITY);
  }

  /** Excludes a template whose build took too long, for a pause that doubles each time. */
  postpone(key: string): void {
    const pauseMs = this.#pauseMs.get(key) ?? firstPauseMs;
    this.#pauseMs.set(key, Math.min(2 * pauseMs, longestPauseMs));
    this.#untilMs.set(key, this.#clock.monotonic() + pauseMs);
  }
}

import type { Clock } from "@kip/base";

/** What has changed meanwhile waits at most so long, milliseconds. */
export const mostHeldMs = 500;

/**
 * Changes that policies depend on, in their order. While it is computed what earlier ones mean, later ones wait: otherwise groups would
 * have to look at more and more pods, and cells would wait until nothing changes. They wait for a time at most, as users decide how much
 * there is to compute for one namespace; others are done sooner.
 */
export class ChangeIntake {
  readonly #clock: Clock;
  readonly #onFailure: (error: unknown) => void;
  #waiting: (() => void)[] = [];
  /** When changes began to wait, by the monotonic clock; undefined while they do not. */
  #heldSinceMs: number | undefined;

  /** @param onFailure is informed of changes that failed after they had waited */
  constructor(clock: Clock, onFailure: (error: unknown) => void) {
    this.#clock = clock;
    this.#onFailure = onFailure;
  }

  /**
   * Makes a change, now or once no earlier one waits.
   *
   * @throws what a change throws that does not wait
   */
  take(change: () => void): void {
    if (this.#heldSinceMs === undefined) change();
    else this.#waiting.push(change);
  }

  /** Has changes wait from now on, if they do not. */
  hold(): void {
    this.#heldSinceMs ??= this.#clock.monotonic();
  }

  /** Makes those that have waited for long enough: all or none. */
  openIfDue(): void {
    const sinceMs = this.#heldSinceMs;
    if (sinceMs !== undefined && this.#clock.monotonic() - sinceMs >= mostHeldMs) this.open();
  }

  /** Makes all that wait, and has none wait from now on. */
  open(): void {
    this.#heldSinceMs = undefined;
    const changes = this.#waiting;
    this.#waiting = [];
    for (const change of changes)
      try {
        change();
      } catch (error) {
        this.#onFailure(error);
      }
  }
}

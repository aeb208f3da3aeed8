import type { Clock } from "@kip/base";

/** What {@link ChangeIntake} needs. */
export interface ChangeIntakeOptions {
  readonly clock: Clock;
  /** Changes wait at most so long, milliseconds; Infinity for no limit. */
  readonly mostHeldMs: number;
  /** Is informed of changes that failed after they had waited. */
  readonly onFailure: (error: unknown) => void;
}

/**
 * Changes that policies depend on, in their order. While it is computed what earlier ones mean, later ones wait: otherwise groups would
 * have to look at more and more pods, and cells would wait until nothing changes. Of each object, only the last change waits.
 */
export class ChangeIntake {
  readonly #options: ChangeIntakeOptions;
  #waiting = new Map<unknown, () => void>();
  /** When changes began to wait, by the monotonic clock; undefined while they do not. */
  #heldSinceMs: number | undefined;

  constructor(options: ChangeIntakeOptions) {
    this.#options = options;
  }

  /** How long changes have waited, milliseconds; 0 while they do not. */
  get heldMs(): number {
    const sinceMs = this.#heldSinceMs;
    return sinceMs === undefined ? 0 : this.#options.clock.monotonic() - sinceMs;
  }

  /**
   * Makes a change, now or once no earlier one waits.
   *
   * @param of what has changed: the change replaces one of it that waits
   * @throws what a change throws that does not wait
   */
  take(of: unknown, change: () => void): void {
    if (this.#heldSinceMs === undefined) change();
    else {
      this.#waiting.delete(of);
      this.#waiting.set(of, change);
    }
  }

  /** Has changes wait from now on, if they do not. */
  hold(): void {
    this.#heldSinceMs ??= this.#options.clock.monotonic();
  }

  /** Makes those that have waited for long enough: all or none. @returns whether there were any */
  openIfDue(): boolean {
    return this.heldMs >= this.#options.mostHeldMs && this.open();
  }

  /** Makes all that wait, and has none wait from now on. @returns whether there were any */
  open(): boolean {
    this.#heldSinceMs = undefined;
    const changes = this.#waiting;
    this.#waiting = new Map();
    for (const change of changes.values())
      try {
        change();
      } catch (error) {
        this.#options.onFailure(error);
      }
    return changes.size > 0;
  }
}

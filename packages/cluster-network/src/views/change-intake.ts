import type { Clock } from "@kip/base";

/** What {@link ChangeIntake} needs. */
export interface ChangeIntakeOptions {
  readonly clock: Clock;
  /** How long changes wait at most, milliseconds; Infinity for no limit. */
  readonly maxHeldMs: number;
  /** Is informed of changes that failed after they had waited. */
  readonly onFailure: (error: unknown) => void;
}

/**
 * Passes on changes of the objects that policies depend on, in their order. While the effect of earlier changes is computed, later ones wait.
 * Otherwise groups would get more and more to catch up with, and cells would get nothing until the cluster is quiet. Of several waiting
 * changes of one object, the last one counts.
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
   * Makes a change: now, or with all others that wait.
   *
   * @param of what has changed; a waiting change of the same is replaced
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

  /** Makes all waiting changes if they have waited for `maxHeldMs`. @returns whether there were any */
  releaseIfDue(): boolean {
    return this.heldMs >= this.#options.maxHeldMs && this.release();
  }

  /** Makes all waiting changes; from now on changes do not wait. @returns whether there were any */
  release(): boolean {
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

import type { Clock } from "@kip/base";

/** Options of {@link ChangeIntake}. */
export interface ChangeIntakeOptions {
  readonly clock: Clock;
  /** Longest time that changes are held, milliseconds. Infinity means no limit. */
  readonly maxHeldMs: number;
  /** Called with the error of a held change that failed. */
  readonly onFailure: (error: unknown) => void;
}

/**
 * Applies changes of the objects that policies depend on, in order. While the effect of earlier changes is computed, later ones are held.
 * Otherwise groups would lag further and further behind, and cells would get nothing until the cluster is quiet. Of several held changes
 * of one object, only the last one is applied.
 */
export class ChangeIntake {
  readonly #options: ChangeIntakeOptions;
  #waiting = new Map<unknown, () => void>();
  /** Since when changes are held, by the monotonic clock. Undefined while they are not held. */
  #heldSinceMs: number | undefined;

  constructor(options: ChangeIntakeOptions) {
    this.#options = options;
  }

  /** How long changes have been held, milliseconds. 0 while they are not held. */
  get heldMs(): number {
    const sinceMs = this.#heldSinceMs;
    return sinceMs === undefined ? 0 : this.#options.clock.monotonic() - sinceMs;
  }

  /**
   * Applies a change now, or later if changes are held.
   *
   * @param of identifies the changed object. A held change of the same object is replaced
   * @throws the error of the change, if it is applied now
   */
  take(of: unknown, change: () => void): void {
    if (this.#heldSinceMs === undefined) change();
    else {
      this.#waiting.delete(of);
      this.#waiting.set(of, change);
    }
  }

  /** Holds changes from now on. No effect if they are already held. */
  hold(): void {
    this.#heldSinceMs ??= this.#options.clock.monotonic();
  }

  /** Calls {@link ChangeIntake.release} if changes have been held for `maxHeldMs`. @returns whether any were applied */
  releaseIfDue(): boolean {
    return this.heldMs >= this.#options.maxHeldMs && this.release();
  }

  /** Applies all held changes, and stops holding. @returns whether there were any */
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

import { ManualClock } from "./manual-clock.ts";

/** A clock that advances with each reading, so that work in time slices ends after a few steps. */
export class SlowClock extends ManualClock {
  /** How far each reading advances the clock, milliseconds. */
  lookMs = 1;
  #spentMs = 0;

  override monotonic(): number {
    return super.monotonic() + (this.#spentMs += this.lookMs);
  }
}

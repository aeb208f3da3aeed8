import { ManualClock } from "./manual-clock.ts";

/** Each look at it takes a while: what is computed in blocks of time ends after few steps. */
export class SlowClock extends ManualClock {
  /** How long a look takes, milliseconds. */
  lookMs = 1;
  #spentMs = 0;

  override monotonic(): number {
    return super.monotonic() + (this.#spentMs += this.lookMs);
  }
}

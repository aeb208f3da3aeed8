import { systemClock } from "@kip/base";

/** How long each step of a start took, in the order in which they ended. */
export class StartSteps {
  readonly #started = systemClock.monotonic();
  readonly #times: [name: string, ms: number][] = [];
  #last = this.#started;

  /** Notes that a step has ended, and the next one begins. */
  readonly done = (name: string): void => {
    const now = systemClock.monotonic();
    this.#times.push([name, Math.round(now - this.#last)]);
    this.#last = now;
  };

  /** Milliseconds of each step and of all of them. */
  toJSON(): Readonly<Record<string, number>> {
    return { ...Object.fromEntries(this.#times), total: Math.round(this.#last - this.#started) };
  }
}

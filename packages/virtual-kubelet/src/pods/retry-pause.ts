import { pause, type Clock } from "@kip/base";

/** How long a {@link RetryPause} is. */
export interface PauseLength {
  /** The whole pause, milliseconds. */
  readonly delayMs: number;
  /** The part of it, from its start, that {@link RetryPause.wake} does not shorten, milliseconds. */
  readonly firmMs: number;
}

/** The pause before a failed step is repeated. There is at most one at a time. */
export class RetryPause {
  readonly #clock: Clock;
  #firm: AbortController | undefined;
  #rest: AbortController | undefined;
  #isWoken = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Whether there is a pause now. */
  get isRunning(): boolean {
    return this.#firm !== undefined;
  }

  /**
   * Resolves when the pause is over or was ended.
   *
   * @returns whether a {@link RetryPause.wake} came during the pause
   */
  async wait({ delayMs, firmMs }: PauseLength): Promise<boolean> {
    const firm = new AbortController();
    const rest = new AbortController();
    this.#firm = firm;
    this.#rest = rest;
    this.#isWoken = false;
    if (firmMs > 0) await this.#sleep(firmMs, firm);
    if (delayMs > firmMs) await this.#sleep(delayMs - firmMs, rest);
    this.#firm = undefined;
    this.#rest = undefined;
    return this.#isWoken;
  }

  /** The input of the step changed: the pause ends after its firm part. */
  wake(): void {
    this.#isWoken = true;
    this.#rest?.abort();
  }

  /** Another step is due: the pause ends at once. */
  end(): void {
    this.#firm?.abort();
    this.#rest?.abort();
  }

  async #sleep(ms: number, { signal }: AbortController): Promise<void> {
    await pause(ms, this.#clock, signal);
  }
}

import { withTimeout, type Clock } from "@kip/base";
import type { ProviderStats } from "../../usage.ts";

/** Time limit for the provider's measurement, milliseconds. */
const timeoutMs = 15_000;

/**
 * Gets the pods' usage from the provider. Concurrent callers share a measurement, so that several collectors do not cost
 * several measurements.
 */
export class StatsSource {
  readonly #stats: (signal: AbortSignal) => Promise<ProviderStats>;
  readonly #clock: Clock;
  #underWay: Promise<ProviderStats> | undefined;

  constructor(stats: (signal: AbortSignal) => Promise<ProviderStats>, clock: Clock) {
    this.#stats = stats;
    this.#clock = clock;
  }

  /** @throws the provider's errors, or an error if it takes longer than 15 seconds */
  async read(): Promise<ProviderStats> {
    this.#underWay ??= this.#ask().finally(() => {
      this.#underWay = undefined;
    });
    return await this.#underWay;
  }

  async #ask(): Promise<ProviderStats> {
    return await withTimeout(this.#stats, {
      limitMs: timeoutMs,
      clock: this.#clock,
      error: () => new Error(`the provider gave no figures within ${timeoutMs / 1000} s`),
    });
  }
}

import type { Clock, Logger } from "@kip/base";
import type { CloudDriver, NetworkFacts } from "@kip/cloud";

/** Options of {@link KnownNetworkFacts}. */
export interface KnownNetworkFactsOptions {
  readonly driver: Pick<CloudDriver, "networkFacts">;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Age from which facts are read again, milliseconds. */
const refreshMs = 60_000;

/** Caches the cloud's network facts. Each pod needs them before it is dispatched, and a cloud may be slow or unavailable. */
export class KnownNetworkFacts {
  readonly #options: KnownNetworkFactsOptions;
  #known: NetworkFacts | undefined;
  #askedAtMs = 0;
  #asking: Promise<NetworkFacts> | undefined;

  constructor(options: KnownNetworkFactsOptions) {
    this.#options = options;
  }

  /**
   * The newest known facts. Only waits for the cloud if there are none. Facts that are older than a minute are read again in
   * the background.
   *
   * @throws {CloudError} the driver's error, if there are no facts yet
   */
  async get(): Promise<NetworkFacts> {
    const { clock, logger } = this.#options;
    if (!this.#known) return await this.#ask();
    if (clock.monotonic() - this.#askedAtMs >= refreshMs)
      this.#ask().catch((err: unknown) => {
        logger.warn("Could not ask the cloud for the facts of its network again", { err });
      });
    return this.#known;
  }

  async #ask(): Promise<NetworkFacts> {
    const { driver, clock } = this.#options;
    this.#askedAtMs = clock.monotonic();
    this.#asking ??= driver.networkFacts().finally(() => (this.#asking = undefined));
    return (this.#known = await this.#asking);
  }
}

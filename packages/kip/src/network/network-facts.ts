import type { Clock, Logger } from "@kip/base";
import type { CloudDriver, NetworkFacts } from "@kip/cloud";

/** Options of {@link KnownNetworkFacts}. */
export interface KnownNetworkFactsOptions {
  readonly driver: Pick<CloudDriver, "networkFacts">;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** The age of facts from which on they are read again, milliseconds. */
const refreshMs = 60_000;

/**
 * A cache of the cloud's network facts: each pod needs them before it is dispatched, and a cloud may be slow or out
 * of reach.
 */
export class KnownNetworkFacts {
  readonly #options: KnownNetworkFactsOptions;
  #known: NetworkFacts | undefined;
  #askedAtMs = 0;
  #asking: Promise<NetworkFacts> | undefined;

  constructor(options: KnownNetworkFactsOptions) {
    this.#options = options;
  }

  /**
   * The newest facts that are known. Waits for the cloud only if there are none; facts older than a minute are read
   * again in the background.
   *
   * @throws {CloudError} what the driver throws, as long as there are none
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

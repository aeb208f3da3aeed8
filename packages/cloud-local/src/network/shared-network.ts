import type { LocalNetwork } from "./local-network.ts";
import { NetworkWatch, type NetworkWatchOptions } from "./network-watch.ts";

/**
 * The network that all processes of a state folder share. One process at a time creates or removes it. Each watches it while it
 * exists.
 */
export class SharedNetwork {
  readonly network: LocalNetwork;
  readonly #lock: NetworkWatchOptions["lock"];
  readonly #watch: NetworkWatch;
  #isPrepared = false;

  constructor(options: NetworkWatchOptions) {
    this.network = options.network;
    this.#lock = options.lock;
    this.#watch = new NetworkWatch(options);
  }

  /** Starts watching the network if another process has created it. */
  async open(): Promise<void> {
    await this.#watch.start();
  }

  /** Creates what is missing. */
  async prepare(): Promise<void> {
    await this.#lock(async () => await this.network.prepare());
    this.#isPrepared = true;
    await this.#watch.start();
  }

  /** Like {@link SharedNetwork.prepare}, but does nothing if this process has already done so and the network still exists. */
  async ensure(): Promise<void> {
    if (!this.#isPrepared || !(await this.network.exists())) await this.prepare();
  }

  async remove(): Promise<void> {
    this.#isPrepared = false;
    await this.#watch.stop();
    await this.#lock(async () => await this.network.remove());
  }

  /** Stops watching. The network stays. */
  async close(): Promise<void> {
    await this.#watch.stop();
  }
}

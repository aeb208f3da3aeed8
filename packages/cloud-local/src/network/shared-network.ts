import type { LocalNetwork } from "./local-network.ts";
import { NetworkWatch, type NetworkWatchOptions } from "./network-watch.ts";

/** The network that all processes of a state folder share: made and removed by one at a time, and watched while it is there. */
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

  /** Watches the network if another process has made it. */
  async open(): Promise<void> {
    await this.#watch.start();
  }

  /** Makes what is missing. */
  async prepare(): Promise<void> {
    await this.#lock(async () => await this.network.prepare());
    this.#isPrepared = true;
    await this.#watch.start();
  }

  /** The same, unless this process has done so and it is there still. */
  async ensure(): Promise<void> {
    if (!this.#isPrepared || !(await this.network.exists())) await this.prepare();
  }

  async remove(): Promise<void> {
    this.#isPrepared = false;
    await this.#watch.stop();
    await this.#lock(async () => await this.network.remove());
  }

  /** Stops watching; the network stays. */
  async close(): Promise<void> {
    await this.#watch.stop();
  }
}

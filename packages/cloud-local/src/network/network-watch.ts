import { backoffDelay, errorText, type Clock, type Logger } from "@kip/base";
import { SharedRun } from "../host/shared-run.ts";
import { uplinkDevice } from "./device-names.ts";
import { followEvents } from "./follow-events.ts";
import type { LocalNetwork } from "./local-network.ts";

/** Dependencies of {@link NetworkWatch}. */
export interface NetworkWatchOptions {
  readonly network: LocalNetwork;
  /** Runs `work` while no other process changes the network. */
  readonly lock: <T>(work: () => Promise<T>) => Promise<T>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Delays before the uplink is restarted, milliseconds. No delay if it ran for longer than the longest one. */
const backoff = { initialMs: 1000, maxMs: 60_000 } as const;

/**
 * Maintains a network with an uplink while this process runs. Closes the host's new addresses as soon as the kernel reports
 * them, and restarts the uplink when it ends. Several processes may do so for the same network.
 */
export class NetworkWatch {
  readonly #options: NetworkWatchOptions;
  readonly #addresses: SharedRun;
  readonly #uplink: SharedRun;
  #stop = new AbortController();
  #following: Promise<unknown> | undefined;
  #attempt = 0;
  #restartedAt = Number.NEGATIVE_INFINITY;

  constructor(options: NetworkWatchOptions) {
    this.#options = options;
    this.#addresses = new SharedRun(async () => await this.#closeAddresses());
    this.#uplink = new SharedRun(async () => await this.#keepUplink());
  }

  /** Starts watching, unless it already does or there is no uplink. */
  async start(): Promise<void> {
    const { network, clock, logger } = this.#options;
    const isNeeded = async (): Promise<boolean> => await network.exists();
    if (this.#following || !(await network.hasInternet()) || !(await isNeeded())) return;
    this.#stop = new AbortController();
    const { signal } = this.#stop;
    const common = { isNeeded, clock, logger, signal };
    const onAddress = (): void => void this.#addresses.run();
    const onUplink = (): void => void this.#uplink.run();
    const following = Promise.all([
      followEvents({
        ...common,
        objects: ["address", "route", "rule"],
        hasIpv6: network.plan.ipv6 !== undefined,
        onLine: (line) => {
          if (mayChangeLocalAddresses(line)) onAddress();
        },
        onGap: onAddress,
      }),
      followEvents({
        ...common,
        namespaceFile: network.namespace.file,
        objects: ["link"],
        onLine: (line) => {
          if (isRemoval(line, uplinkDevice)) onUplink();
        },
        onGap: onUplink,
      }),
    ]).finally(() => {
      if (this.#following === following) this.#following = undefined;
    });
    this.#following = following;
  }

  /** Stops watching. */
  async stop(): Promise<void> {
    this.#stop.abort(new Error("The network is no longer watched"));
    await this.#following;
    await Promise.all([this.#addresses.run(), this.#uplink.run()]); // the work under way has ended
  }

  async #closeAddresses(): Promise<void> {
    const { network, logger } = this.#options;
    if (this.#stop.signal.aborted) return;
    try {
      await network.closeLocalAddresses();
    } catch (error) {
      if (await network.exists())
        logger.error("Could not close the host's addresses to machines", { err: errorText(error) });
    }
  }

  async #keepUplink(): Promise<void> {
    const { network, lock, clock, logger } = this.#options;
    const { signal } = this.#stop;
    while (!signal.aborted) {
      try {
        if (!(await network.exists()) || (await network.hasUplink())) return;
        if (clock.monotonic() - this.#restartedAt > backoff.maxMs) this.#attempt = 0;
        if (this.#attempt > 0) await clock.sleep(backoffDelay(this.#attempt - 1, backoff), signal);
        this.#attempt++;
        this.#restartedAt = clock.monotonic();
        if (!(await lock(() => network.restoreUplink()))) return;
        logger.warn("Machines had no internet: slirp4netns had ended and was started again");
      } catch (error) {
        if (signal.aborted) return;
        logger.error("Could not start slirp4netns again: machines have no internet", {
          err: errorText(error),
        });
        await clock.sleep(backoff.initialMs, signal).catch(() => {}); // the loop notices it
      }
    }
  }
}

/** Whether a line of `ip -oneline monitor address route rule` is about an address, a rule or a local route. */
function mayChangeLocalAddresses(line: string): boolean {
  return /^(?:Deleted )?(?:\d+:|local |anycast )/.test(line);
}

/** Whether a line of `ip -oneline monitor link` reports that the device is gone: "Deleted 7: uplink: <…". */
function isRemoval(line: string, device: string): boolean {
  const [, name] = /^Deleted \d+: ([^:@\s]+)/.exec(line) ?? [];
  return name === device;
}

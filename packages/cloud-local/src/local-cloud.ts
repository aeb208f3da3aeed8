import type { Clock, Logger } from "@kip/base";
import type { CloudDriver } from "@kip/cloud";

/** Options of {@link createLocalCloud}. */
export interface LocalCloudOptions {
  /** ID of this kip installation; the driver lists and touches only machines of this owner. */
  readonly owner: string;
  /** Absolute path of a folder of root's; holds one folder per machine. Made when it is missing. */
  readonly stateDir: string;
  /** Absolute path of the folder that holds one folder per image: `<imagesDir>/<id>/image.json`. */
  readonly imagesDir: string;
  /** Name of the network namespace, 1 to 11 letters, digits or dashes. @default "kip" */
  readonly namespace?: string;
  /** Addresses of the local cloud, IPv4 CIDR of /22 or bigger: lower half machines, upper half pods. @default "198.18.0.0/15" */
  readonly range?: string;
  /** Whether machines reach what the host reaches. "auto": if pasta or slirp4netns is there. @default "auto" */
  readonly internet?: boolean | "auto";
  /** Program that runs a machine. @default "qemu-system-x86_64" */
  readonly qemu?: string;
  /** "auto" proves KVM with a tiny guest and falls back to software emulation. @default "auto" */
  readonly accelerator?: "auto" | "kvm" | "tcg";
  /** Most memory that all machines may have together, bytes. @default the host's memory */
  readonly memoryBytes?: number;
  /** Most CPUs that one machine may have. @default the host's */
  readonly cpus?: number;
  /** @default silent */
  readonly logger?: Logger;
  /** @default the system's */
  readonly clock?: Clock;
}

/** The local cloud: what every cloud does, and the network that `kip up` and `kip down` care for. */
export interface LocalCloud extends CloudDriver {
  /** Address of the host as machines and pods see it: kip's InternalIP. 198.18.0.1 by default. */
  readonly hostAddress: string;
  /**
   * Makes the network namespace, the bridge in it, the link to the host and the way out. Does only
   * what is missing; {@link CloudDriver.launch} calls it too.
   *
   * @throws {CloudError} `CLOUD_INVALID_REQUEST` if the range collides with a route of the host
   */
  prepareNetwork(): Promise<void>;
  /** Removes everything that {@link LocalCloud.prepareNetwork} made. Machines must be gone. */
  removeNetwork(): Promise<void>;
  /** Terminates every machine of every owner in the state folder; for `kip down`. */
  terminateAll(): Promise<void>;
}

/**
 * Opens the local cloud. Machines that run already are found again. As root only.
 *
 * @throws {CloudError} `CLOUD_INVALID_REQUEST` if an option cannot work, `CLOUD_AUTH` if not root
 */
export async function createLocalCloud(options: LocalCloudOptions): Promise<LocalCloud> {
  return await Promise.reject(new Error(`Not there yet: ${options.stateDir}`));
}

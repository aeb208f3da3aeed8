import type { CloudDriver, LaunchImages } from "@kip/cloud";
import { CloudError } from "@kip/cloud";
import { qemuFor } from "./host/architecture.ts";
import { requirePrograms } from "./host/programs.ts";
import { resolveLocalCloudOptions, type LocalCloudOptions } from "./options/local-cloud-options.ts";
import { createParts } from "./local-cloud-parts.ts";
import { QemuCloud } from "./qemu-cloud.ts";

/** Options of {@link LocalCloud.prepareTemplate}. */
export interface PrepareTemplateOptions {
  readonly signal?: AbortSignal | undefined;
  /** Images that the template and its machines contain. @default none */
  readonly images?: LaunchImages | undefined;
}

/** The place for a DNS server for pods, and the resolvers that it uses. */
export interface ClusterDnsPlace {
  /** File that names its network namespace. */
  readonly namespaceFile: string;
  /** An address for this server only. Machines, pods and the host can reach its port 53. */
  readonly address: string;
  /** Addresses of the host's resolvers as seen from the namespace. Empty without an uplink. */
  readonly resolvers: readonly string[];
}

/** The local cloud: the driver, and the network that `kip up` and `kip down` manage. */
export interface LocalCloud extends CloudDriver {
  /** The host's address for machines and pods: kip's InternalIP. 198.18.0.1 by default. */
  readonly hostAddress: string;
  /** The host's address in each family, IPv4 first. */
  readonly hostAddresses: readonly string[];
  /**
   * Creates the network namespace, its bridge, its link to the host and its uplink, as far as they are missing.
   * {@link CloudDriver.launch} also does this.
   *
   * @throws {CloudError} `CLOUD_INVALID_REQUEST` if the range collides with a route of the host
   */
  prepareNetwork(): Promise<void>;
  /**
   * Removes everything that {@link LocalCloud.prepareNetwork} has created. Kills processes that are still in the namespace, so
   * terminate the machines first.
   */
  removeNetwork(): Promise<void>;
  /** The place for the cluster's own DNS server. */
  clusterDns(): Promise<ClusterDnsPlace>;
  /**
   * Creates a template for machines of this type, image and disk size, if there is none. Machines that are launched later start
   * from it. Without this call, a template is created in the background when the first such machine has booted, and one with
   * images when the first machine that requested them has been copied.
   *
   * @throws {CloudError} `CLOUD_INVALID_REQUEST` if the image does not support templates or they are disabled,
   * `CLOUD_UNAVAILABLE` or `CLOUD_NO_CAPACITY` if it cannot be created now
   */
  prepareTemplate(
    instanceType: string,
    image: string,
    rootDiskBytes: number,
    options?: {
      readonly signal?: AbortSignal;
      /** Images that the template and its machines contain. @default none */
      readonly images?: LaunchImages | undefined;
    },
  ): Promise<void>;
  /** Terminates all machines of all owners in the state folder, for `kip down`. */
  terminateAll(): Promise<void>;
}

/**
 * Opens the local cloud. Finds running machines, and completes what killed processes have started. Only for root.
 *
 * @throws {CloudError} `CLOUD_INVALID_REQUEST` if an option is invalid or a program is missing, `CLOUD_AUTH` if not root
 * @example
 * await using cloud = await createLocalCloud({ owner, stateDir: "/var/lib/kip/cloud", imagesDir });
 * await cloud.prepareNetwork();
 * const image = await cloud.resolveImage({});
 * const { id } = await cloud.launch({ token, name, instanceType: "local.small", image, ...rest });
 */
export async function createLocalCloud(options: LocalCloudOptions): Promise<LocalCloud> {
  const resolved = resolveLocalCloudOptions(options);
  if (process.getuid?.() !== 0) {
    throw new CloudError("CLOUD_AUTH", "Cannot open the local cloud: it needs root", {
      remedy: "Run it with sudo: it makes a network namespace and starts virtual machines",
    });
  }
  const { qemu, architectures } = resolved;
  await requirePrograms(architectures.map((architecture) => qemuFor(architecture, qemu)));
  const cloud = new QemuCloud(createParts(resolved));
  await cloud.open();
  return cloud;
}

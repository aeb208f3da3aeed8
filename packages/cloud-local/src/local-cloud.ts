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
  /** Images that the template, and machines of it, have. @default none */
  readonly images?: LaunchImages | undefined;
}

/** Where a name server for pods runs, and the resolvers that it asks. */
export interface ClusterDnsPlace {
  /** File of the network namespace that it runs in. */
  readonly namespaceFile: string;
  /** Address that is for it alone: machines, pods and the host reach its port 53. */
  readonly address: string;
  /** Addresses of the host's resolvers as the namespace reaches them; none without a way out. */
  readonly resolvers: readonly string[];
}

/** The local cloud: what every cloud does, and the network that `kip up` and `kip down` care for. */
export interface LocalCloud extends CloudDriver {
  /** Address of the host as machines and pods see it: kip's InternalIP. 198.18.0.1 by default. */
  readonly hostAddress: string;
  /** The same of each family that is used, IPv4 first. */
  readonly hostAddresses: readonly string[];
  /**
   * Makes the network namespace, the bridge in it, the link to the host and the way out. Does only
   * what is missing; {@link CloudDriver.launch} calls it too.
   *
   * @throws {CloudError} `CLOUD_INVALID_REQUEST` if the range collides with a route of the host
   */
  prepareNetwork(): Promise<void>;
  /**
   * Removes everything that {@link LocalCloud.prepareNetwork} made. Processes that are still in the
   * namespace are killed, so terminate the machines first.
   */
  removeNetwork(): Promise<void>;
  /** Where the cluster's own name server belongs. */
  clusterDns(): Promise<ClusterDnsPlace>;
  /**
   * Makes a template for machines of this type, image and disk size, if there is none: machines that are launched
   * later start from it. Without this one is made in the background when the first such machine has booted, and one
   * with images when the first machine that was to have them has been copied.
   *
   * @throws {CloudError} `CLOUD_INVALID_REQUEST` if the image knows of no templates or they are switched off,
   * `CLOUD_UNAVAILABLE` or `CLOUD_NO_CAPACITY` if it cannot be made now
   */
  prepareTemplate(
    instanceType: string,
    image: string,
    rootDiskBytes: number,
    options?: {
      readonly signal?: AbortSignal;
      /** That the template, and machines of it, have. @default none */
      readonly images?: LaunchImages | undefined;
    },
  ): Promise<void>;
  /** Terminates every machine of every owner in the state folder; for `kip down`. */
  terminateAll(): Promise<void>;
}

/**
 * Opens the local cloud. Machines that run already are found again; what a killed process left half
 * done is finished. As root only.
 *
 * @throws {CloudError} `CLOUD_INVALID_REQUEST` if an option cannot work or a program is missing,
 * `CLOUD_AUTH` if not root
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

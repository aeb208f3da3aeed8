import { randomUUID } from "node:crypto";
import { CloudError, type LaunchRequest } from "@kip/cloud";
import type { Machine, MachineLaunch, Machines, MetadataService } from "@kip/cloud-aws/emulator";
import type { LocalCloud } from "@kip/cloud-local";
import type { MetadataHops } from "./metadata-hops.ts";

/** Options of {@link QemuMachines}. */
export interface QemuMachinesOptions {
  readonly cloud: LocalCloud;
  /** ID of the image that each machine boots, whatever AMI its instance has. */
  readonly image: string;
  readonly region: string;
  readonly zone: string;
  readonly metadata: MetadataService;
  readonly hops: MetadataHops;
}

/** How much of a console is shown, bytes. EC2 has the same limit. */
const consoleBytes = 64 * 2 ** 10;

/** Machines of the local cloud that serve as EC2 instances. Each gets its user data only from the metadata service. */
export class QemuMachines implements Machines {
  readonly #options: QemuMachinesOptions;

  constructor(options: QemuMachinesOptions) {
    this.#options = options;
  }

  async start(launch: MachineLaunch, onEnd: (how: "itself" | "taken") => void): Promise<Machine> {
    const { cloud, metadata, hops } = this.#options;
    const { id, managementIp = "", podIp = "" } = await cloud.launch(this.#request(launch));
    const addresses = [managementIp, podIp];
    const paths = this.#paths(launch, addresses);
    const ofPod = { ...podTags(launch.tags) };
    const isFar = launch.hopLimit > 1;
    const stack = new DisposableStack();
    const end = async (): Promise<void> => {
      stack.dispose();
      metadata.delete(addresses);
      await cloud.terminate(id);
      if (isFar) await hops.forget(addresses);
    };
    try {
      if (isFar) await hops.allow(addresses);
      stack.use(follow(cloud, id, paths, onEnd));
      // The machine may have ended before we listened.
      if (!(await cloud.describe(id))) onEnd("itself");
    } catch (error) {
      await end();
      throw error;
    }
    return {
      managementIp,
      podIp,
      named: (instanceId) => {
        paths.set("instance-id", instanceId);
        metadata.set(addresses, { userData: launch.userData, paths });
      },
      tagged: async (tags) => {
        Object.assign(ofPod, podTags(tags));
        await cloud.setTags(id, ofPod).catch((error: unknown) => {
          if (!CloudError.is(error, "CLOUD_NOT_FOUND")) throw error; // it has ended; EC2 reports that soon
        });
      },
      console: async () => await cloud.consoleOutput(id, consoleBytes),
      end,
    };
  }

  #request({ instanceType, isSpot, rootDiskBytes, tags }: MachineLaunch): LaunchRequest {
    const token = randomUUID();
    return {
      token,
      name: tags["KipCell"] ?? `ec2-${token.slice(0, 8)}`,
      instanceType,
      launchType: isSpot ? "spot" : "on-demand",
      image: this.#options.image,
      rootDiskBytes,
      userData: new Uint8Array(),
      privateIpOnly: true,
      tags: podTags(tags),
    };
  }

  #paths(
    { imageId, instanceType, isSpot }: MachineLaunch,
    [own = ""]: readonly string[],
  ): Map<string, string> {
    const { region, zone } = this.#options;
    return new Map([
      ["ami-id", imageId],
      ["instance-life-cycle", isSpot ? "spot" : "on-demand"],
      ["instance-type", instanceType],
      ["local-hostname", `ip-${own.replaceAll(".", "-")}.ec2.internal`],
      ["local-ipv4", own],
      ["placement/availability-zone", zone],
      ["placement/region", region],
    ]);
  }
}

/** The tags by which `kip local` finds a pod's machine. */
function podTags(tags: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(tags).filter(([key]) => key.startsWith("kip-pod-")));
}

const spotAction = "spot/instance-action";

/** Puts an interruption notice into the machine's metadata, and reports when the machine ends. */
function follow(
  cloud: LocalCloud,
  id: string,
  paths: Map<string, string>,
  onEnd: (how: "itself" | "taken") => void,
): Disposable {
  const stack = new DisposableStack();
  stack.defer(
    cloud.onInterruption(({ instance, endsAt }) => {
      if (instance.id === id) paths.set(spotAction, spotNotice(endsAt));
    }),
  );
  stack.defer(
    cloud.onTerminated((ended) => {
      if (ended.id === id) onEnd(paths.has(spotAction) ? "taken" : "itself");
    }),
  );
  return stack;
}

function spotNotice(endsAt: string): string {
  const time = `${new Date(endsAt).toISOString().slice(0, 19)}Z`;
  return JSON.stringify({ action: "terminate", time });
}

import type { Clock } from "@kip/base";
import { checkVolumeRequest, CloudError, type Volume, type VolumeRequest } from "@kip/cloud";
import type { Ec2 } from "../ec2/ec2-calls.ts";
import { awsCodeOf } from "../errors/cloud-error-of.ts";
import type { Instances } from "../instance/instances.ts";
import { clientTokenOf } from "../instance/run-request.ts";
import type { SeenInstance } from "../instance/to-instance.ts";
import { ownTags, toTags } from "../tags.ts";
import { GiB, toVolume, type VolumeStore } from "./volume-store.ts";

/** Options of {@link Volumes}. */
export interface VolumesOptions {
  readonly ec2: Ec2;
  readonly owner: string;
  readonly zone: string;
  readonly store: VolumeStore;
  readonly instances: Instances;
  readonly clock: Clock;
}

/** Device names that EC2 recommends for further disks. The guest finds a disk by its serial number. */
const deviceNames: readonly string[] = Array.from("fghijklmnop", (letter) => `/dev/sd${letter}`);
const mostGenerations = 20;

/** Encrypted gp3 EBS volumes in the cells' zone, which outlive instances. */
export class Volumes {
  readonly #options: VolumesOptions;

  constructor(options: VolumesOptions) {
    this.#options = options;
  }

  async create(request: VolumeRequest): Promise<Volume> {
    checkVolumeRequest(request);
    const { owner, store } = this.#options;
    for (let generation = 0; generation < mostGenerations; generation++) {
      const clientToken = clientTokenOf(owner, request.token, generation);
      try {
        return await this.#create(request, clientToken);
      } catch (error) {
        if (awsCodeOf(error) !== "IdempotentParameterMismatch") throw error;
        const known = await store.made(request.token);
        if (known) return known;
      }
    }
    throw new CloudError(
      "CLOUD_UNAVAILABLE",
      `Cannot create a volume: ${mostGenerations} volumes of its token have been deleted`,
    );
  }

  async delete(id: string): Promise<void> {
    const { ec2, store } = this.#options;
    const volume = await store.find(id);
    if (!volume) return;
    if (volume.attachedTo !== undefined) throw inUse("delete", volume);
    await ec2
      .call("DeleteVolume", { VolumeId: id }, { purpose: "delete a volume" })
      .catch(ignoreNotFound);
  }

  async attach(id: string, instanceId: string): Promise<void> {
    const { store } = this.#options;
    const purpose = `attach volume "${id}"`;
    const volume = await store.find(id);
    if (!volume) throw notFound(purpose, "it does not exist");
    const seen = await this.#living(purpose, instanceId);
    if (volume.attachedTo === undefined) await this.#attach(purpose, id, seen);
    else if (volume.attachedTo !== instanceId) throw inUse("attach", volume);
    await store.until(purpose, async () => {
      const now = await store.find(id);
      if (!now) throw notFound(purpose, "it was deleted");
      if (now.attachedTo !== undefined && now.attachedTo !== instanceId) throw inUse("attach", now);
      return now.attachedTo === instanceId ? true : undefined;
    });
  }

  async detach(id: string, instanceId: string): Promise<void> {
    const { ec2, store } = this.#options;
    const volume = await store.find(id);
    if (volume?.attachedTo !== instanceId) return;
    const purpose = `detach volume "${id}"`;
    await ec2
      .call("DetachVolume", { VolumeId: id, InstanceId: instanceId }, { purpose })
      .catch((error: unknown) => {
        const isDone = awsCodeOf(error) === "IncorrectState" || isNotFound(error);
        if (!isDone) throw error;
      });
    await store.until(purpose, async () =>
      (await store.find(id))?.attachedTo === instanceId ? undefined : true,
    );
  }

  async #create(request: VolumeRequest, clientToken: string): Promise<Volume> {
    const { ec2, owner, zone, clock } = this.#options;
    const { token, name: cell, tags, sizeBytes } = request;
    // The time makes each attempt different, like that of a launch.
    const at = new Date(clock.now()).toISOString();
    const name = `Kip Volume ${tags["kip-nametag"] ?? owner} ${at}`.slice(0, 255);
    const answer = await ec2.call(
      "CreateVolume",
      {
        AvailabilityZone: zone,
        Size: Math.ceil(sizeBytes / GiB),
        VolumeType: "gp3",
        Encrypted: true,
        ClientToken: clientToken,
        TagSpecifications: [
          {
            ResourceType: "volume",
            Tags: toTags({ owner, token, cell, name, tags }, ownTags.volume),
          },
        ],
      },
      { purpose: "create a volume", place: { instanceType: "", launchType: "", zone } },
    );
    const volume = toVolume(answer);
    if (volume) return volume;
    throw new CloudError("CLOUD_UNKNOWN", "Cannot create a volume: the answer has none");
  }

  async #attach(purpose: string, id: string, seen: SeenInstance): Promise<void> {
    const { ec2 } = this.#options;
    const instanceId = seen.instance.id;
    for (const device of deviceNames.filter((name) => !seen.devices.includes(name))) {
      try {
        await ec2.call(
          "AttachVolume",
          { VolumeId: id, InstanceId: instanceId, Device: device },
          { purpose },
        );
        return;
      } catch (error) {
        const code = awsCodeOf(error);
        if (code === "VolumeInUse") return; // the caller checks which instance has it
        if (code === "IncorrectState") await this.#living(purpose, instanceId);
        const isDeviceTaken = code === "InvalidParameterValue" && /in use/.test(String(error));
        if (!isDeviceTaken) throw error;
      }
    }
    throw new CloudError("CLOUD_QUOTA", `Cannot ${purpose}: the instance has no free device name`);
  }

  async #living(purpose: string, instanceId: string): Promise<SeenInstance> {
    const seen = await this.#options.instances.get(instanceId);
    if (seen?.instance.state === "running") return seen;
    throw notFound(purpose, `instance "${instanceId}" does not run`);
  }
}

function notFound(purpose: string, reason: string): CloudError {
  return new CloudError("CLOUD_NOT_FOUND", `Cannot ${purpose}: ${reason}`);
}

function inUse(verb: string, { id, attachedTo }: Volume): CloudError {
  return new CloudError(
    "CLOUD_INVALID_REQUEST",
    `Cannot ${verb} volume "${id}": instance "${attachedTo}" has it`,
  );
}

function isNotFound(error: unknown): boolean {
  return CloudError.is(error, "CLOUD_NOT_FOUND");
}

function ignoreNotFound(error: unknown): void {
  if (!isNotFound(error)) throw error;
}

import type { Instance, Volume, VolumeRequest } from "../cloud-driver.ts";
import { CloudError } from "../errors.ts";
import { checkVolumeRequest } from "../limits.ts";
import { randomHex, type Random } from "./seeded-random.ts";

const MiB = 2 ** 20;

interface Disk {
  volume: Volume;
  /** The text that a guest wrote to it. */
  content: string;
}

/** A disk of an instance as its guest sees it. */
export interface SimulatedDisk {
  readonly serial: string;
  readonly sizeBytes: number;
  readonly content: string;
}

/** The volumes of a simulated cloud, of all owners. */
export class SimulatedVolumes {
  readonly #disks = new Map<string, Disk>();
  readonly #random: Random;

  constructor(random: Random) {
    this.#random = random;
  }

  create(owner: string, request: VolumeRequest): Volume {
    checkVolumeRequest(request);
    const { token, name, sizeBytes, tags } = request;
    const known = this.list(owner).find((volume) => volume.token === token);
    if (known) return known;
    const unique = randomHex(this.#random, 17);
    const volume: Volume = {
      id: `vol-${unique}`,
      token,
      name,
      owner,
      sizeBytes: Math.ceil(sizeBytes / MiB) * MiB,
      serial: `vol${unique}`,
      tags: { ...tags },
    };
    this.#disks.set(volume.id, { volume, content: "" });
    return volume;
  }

  delete(owner: string, id: string): void {
    const disk = this.#owned(owner, id);
    if (!disk) return;
    if (disk.volume.attachedTo !== undefined)
      throw invalid(`Cannot delete volume "${id}": instance "${disk.volume.attachedTo}" has it`);
    this.#disks.delete(id);
  }

  attach(owner: string, id: string, instance: Instance | undefined): void {
    const disk = this.#owned(owner, id);
    const subject = `Cannot attach volume "${id}"`;
    if (!disk) throw new CloudError("CLOUD_NOT_FOUND", `${subject}: it does not exist`);
    if (!instance || instance.state === "stopping")
      throw new CloudError("CLOUD_NOT_FOUND", `${subject}: the instance does not exist`);
    if (instance.state !== "running") throw invalid(`${subject}: the instance does not run yet`);
    const { attachedTo = instance.id } = disk.volume;
    if (attachedTo !== instance.id) throw invalid(`${subject}: instance "${attachedTo}" has it`);
    disk.volume = { ...disk.volume, attachedTo };
  }

  detach(owner: string, id: string, instanceId: string): void {
    const disk = this.#owned(owner, id);
    if (disk?.volume.attachedTo === instanceId) detachDisk(disk);
  }

  /** Detaches the volumes of an instance that has ended. */
  release(instanceId: string): void {
    for (const disk of this.#of(instanceId)) detachDisk(disk);
  }

  list(owner: string): readonly Volume[] {
    return [...this.#disks.values()]
      .map(({ volume }) => volume)
      .filter((volume) => volume.owner === owner);
  }

  /** The disks of an instance, as its guest sees them. */
  ofInstance(instanceId: string): readonly SimulatedDisk[] {
    return this.#of(instanceId).map(({ volume: { serial, sizeBytes }, content }) => ({
      serial,
      sizeBytes,
      content,
    }));
  }

  /** Writes to a disk, on behalf of a guest. */
  write(instanceId: string, serial: string, content: string): void {
    const disk = this.#of(instanceId).find(({ volume }) => volume.serial === serial);
    if (!disk) throw new RangeError(`Cannot write on disk "${serial}": the instance has no such`);
    disk.content = content;
  }

  #of(instanceId: string): readonly Disk[] {
    return [...this.#disks.values()].filter(({ volume }) => volume.attachedTo === instanceId);
  }

  #owned(owner: string, id: string): Disk | undefined {
    const disk = this.#disks.get(id);
    return disk?.volume.owner === owner ? disk : undefined;
  }
}

function detachDisk(disk: Disk): void {
  const { attachedTo: _, ...volume } = disk.volume;
  disk.volume = volume;
}

function invalid(message: string): CloudError {
  return new CloudError("CLOUD_INVALID_REQUEST", message);
}

import { chmod, open } from "node:fs/promises";
import path from "node:path";
import { checkVolumeRequest, CloudError, type Volume, type VolumeRequest } from "@kip/cloud";
import type { RecordFolders } from "../host/record-folders.ts";
import type { MachineStore } from "../machine/machine-store.ts";
import { plugDisk, takeBack, unplugDisk, type DiskMachine } from "./hot-plug.ts";
import { serialOf, toVolume, volumeFolders, volumeId, type VolumeRecord } from "./volume-record.ts";
import { checkDiskRoom, diskSize } from "./volume-room.ts";

/** The machines for volumes. */
export interface VolumeMachines {
  /**
   * Runs `work` while no other process changes this machine. Passes undefined if no machine of this owner is running with this
   * ID. Records an end that was not recorded yet.
   */
  withRunning<T>(id: string, work: (machine: DiskMachine | undefined) => Promise<T>): Promise<T>;
  /** Records the end of a machine, if it has ended and that was not recorded. */
  noteEnd(id: string): Promise<void>;
}

/** What {@link LocalVolumes} works with. */
export interface LocalVolumesOptions {
  readonly owner: string;
  readonly stateDir: string;
  readonly diskReserveBytes: number;
  readonly store: MachineStore;
  /** Free disk space, without what was promised to machines and volumes, bytes. */
  readonly freeDisk: () => Promise<number>;
  readonly machines: VolumeMachines;
}

/**
 * Volumes, stored as sparse files below the state folder. Like the rest of the local cloud, they have no state elsewhere.
 *
 * Order of locks: machine, volume, all.
 */
export class LocalVolumes {
  readonly #options: LocalVolumesOptions;
  readonly #folders: RecordFolders<VolumeRecord>;

  constructor(options: LocalVolumesOptions) {
    this.#options = options;
    this.#folders = volumeFolders(options.stateDir);
  }

  /** Completes what killed processes have started: detaches volumes from machines that are gone. */
  async open(): Promise<void> {
    await this.#folders.open();
    for (const { attachedTo } of await this.#folders.readAll()) {
      if (attachedTo === undefined || (await this.#machineExists(attachedTo))) continue;
      await this.#options.store.lockMachine(attachedTo, async () => {
        if (!(await this.#machineExists(attachedTo))) await this.detachAll(attachedTo);
      });
    }
  }

  async create(request: VolumeRequest): Promise<Volume> {
    checkVolumeRequest(request);
    const sizeBytes = diskSize("make a volume of", request.sizeBytes);
    const { owner, store } = this.#options;
    const { token, name, tags } = request;
    const id = volumeId(owner, token);
    return await this.#folders.lock(id, async () => {
      const known = await this.#folders.read(id);
      if (known) return await this.#show(known);
      const record: VolumeRecord = {
        id,
        token,
        name,
        owner,
        sizeBytes,
        serial: serialOf(id),
        tags,
      };
      await store.lockAll(async () => {
        const needed = Math.min(sizeBytes, this.#options.diskReserveBytes);
        checkDiskRoom("make a volume", needed, await this.#options.freeDisk());
        await this.#folders.add(record, (folder) => makeDisk(diskIn(folder), sizeBytes));
      });
      return await this.#show(record);
    });
  }

  async delete(id: string): Promise<void> {
    await this.#noteEndOfHolder(id);
    await this.#folders.lock(id, async () => {
      const record = await this.#own(id);
      if (!record) return;
      const holder = await this.#holder(record);
      if (holder !== undefined) throw heldBy(record, holder, "delete");
      await this.#folders.remove(id);
    });
  }

  async attach(id: string, machineId: string): Promise<void> {
    await this.#noteEndOfHolder(id);
    const { machines } = this.#options;
    await machines.withRunning(machineId, async (machine) => {
      await this.#folders.lock(id, async () => {
        const record = await this.#own(id);
        if (!record) throw notFound("volume", id);
        if (!machine) throw notFound("machine", machineId);
        const holder = await this.#holder(record);
        if (holder !== undefined && holder !== machineId) throw heldBy(record, holder, "attach");
        await this.#folders.update({ ...record, attachedTo: machineId });
        try {
          await plugDisk(machine, this.#disk(id), record.serial);
        } catch (error) {
          if (holder === undefined)
            await this.#giveUp(machine, { ...record, attachedTo: machineId });
          throw error;
        }
      });
    });
  }

  async detach(id: string, machineId: string): Promise<void> {
    const { machines } = this.#options;
    await machines.withRunning(machineId, async (machine) => {
      await this.#folders.lock(id, async () => {
        const record = await this.#own(id);
        if (record?.attachedTo !== machineId) return;
        if (machine) await unplugDisk(machine, this.#disk(id), record.serial);
        await this.#release(record);
      });
    });
  }

  async list(): Promise<readonly Volume[]> {
    const records = await this.#folders.readAll();
    const own = records.filter(({ owner }) => owner === this.#options.owner);
    return await Promise.all(own.map((record) => this.#show(record)));
  }

  /** Detaches the volumes of a machine whose process has ended. The caller holds the machine's lock. */
  async detachAll(machineId: string): Promise<void> {
    for (const { id, attachedTo } of await this.#folders.readAll()) {
      if (attachedTo !== machineId) continue;
      await this.#folders.lock(id, async () => {
        const record = await this.#folders.read(id);
        if (record?.attachedTo === machineId) await this.#release(record);
      });
    }
  }

  /** After a failed attempt: the volume becomes free again if QEMU does not have it. */
  async #giveUp(machine: DiskMachine, record: VolumeRecord): Promise<void> {
    try {
      await unplugDisk(machine, this.#disk(record.id), record.serial);
    } catch {
      return; // QEMU does not answer and may have the disk, so the record stays
    }
    await this.#release(record);
  }

  async #release(record: VolumeRecord): Promise<void> {
    const { attachedTo, ...free } = record;
    if (attachedTo !== undefined) {
      const { folder } = this.#options.store.files(attachedTo);
      await takeBack(folder, this.#disk(record.id), record.serial);
    }
    await this.#folders.update(free);
  }

  async #own(id: string): Promise<VolumeRecord | undefined> {
    const record = await this.#folders.read(id);
    return record?.owner === this.#options.owner ? record : undefined;
  }

  async #show(record: VolumeRecord): Promise<Volume> {
    return toVolume(record, await this.#holder(record));
  }

  /** The machine that has the volume. */
  async #holder({ attachedTo }: VolumeRecord): Promise<string | undefined> {
    return attachedTo !== undefined && (await this.#machineExists(attachedTo))
      ? attachedTo
      : undefined;
  }

  async #machineExists(machineId: string): Promise<boolean> {
    const machine = await this.#options.store.read(machineId);
    return machine !== undefined && machine.state !== "ended";
  }

  /** Before locks are taken, because it needs the lock of another machine. */
  async #noteEndOfHolder(id: string): Promise<void> {
    const holder = (await this.#own(id))?.attachedTo;
    if (holder !== undefined) await this.#options.machines.noteEnd(holder);
  }

  #disk(id: string): string {
    return diskIn(this.#folders.folderOf(id));
  }
}

function diskIn(folder: string): string {
  return path.join(folder, "disk.raw");
}

async function makeDisk(file: string, sizeBytes: number): Promise<void> {
  const handle = await open(file, "wx", 0o600);
  try {
    await handle.truncate(sizeBytes);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await chmod(file, 0o600);
}

function notFound(what: string, id: string): CloudError {
  return new CloudError(
    "CLOUD_NOT_FOUND",
    `Cannot attach a volume: ${what} "${id}" does not exist`,
  );
}

function heldBy(record: VolumeRecord, holder: string, verb: string): CloudError {
  return new CloudError(
    "CLOUD_INVALID_REQUEST",
    `Cannot ${verb} volume "${record.name}": machine "${holder}" has it`,
    { remedy: "Detach it first" },
  );
}

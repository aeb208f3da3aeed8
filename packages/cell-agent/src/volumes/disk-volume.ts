import { existsSync } from "node:fs";
import fs from "node:fs/promises";
import path from "node:path";
import { runCommand } from "@kip/base";
import { canGrow, grow, prepareFileSystem } from "./file-system.ts";
import { findDisk, type FindDiskOptions } from "./find-disk.ts";
import { isMounted } from "./mount-points.ts";

/** What a cell finds disks with that are plugged in: as the kernel names modules, and as it asks for them. */
const drivers = ["virtio_scsi", "sd_mod"];

/** A disk that a pod wants. */
export interface DiskVolume {
  readonly serial: string;
  readonly readOnly: boolean;
  /** Group that may read and write everything on it: the pod's `fsGroup`. */
  readonly group?: number | undefined;
}

/**
 * Mounts the disk with the serial number at an existing directory, with the file system it has or a new one; does nothing
 * but grow it if it is mounted there.
 *
 * @throws {AgentError} `AGENT_DISK_ABSENT`, `AGENT_DISK_REFUSED`, `AGENT_DISK_DAMAGED`, `COMMAND_FAILED`
 */
export async function mountDisk(
  directory: string,
  volume: DiskVolume,
  options: FindDiskOptions = {},
): Promise<void> {
  const { readOnly, group } = volume;
  await loadDiskDrivers();
  const disk = await findDisk(volume.serial, options);
  const isNew = !(await isMounted(directory));
  if (isNew) {
    await prepareFileSystem(disk, { readOnly });
    const mode = readOnly ? "ro" : "rw";
    await runCommand("mount", ["-t", "ext4", "-o", mode, disk.file, directory]);
  }
  if (readOnly) return;
  if (await canGrow(disk)) await grow(disk);
  if (isNew && group !== undefined) await openToGroup(directory, group);
}

/** Takes the disk from the directory. When it returns, all that was written is on the disk, which can be unplugged. */
export async function unmountDisk(directory: string): Promise<void> {
  if (await isMounted(directory)) await runCommand("umount", [directory]);
}

/**
 * As the kubelet does for `fsGroup`: the group may do what the owner may, and what is made later is the group's as well. No
 * directory is read whole, and what is right already is not written.
 */
async function openToGroup(root: string, group: number): Promise<void> {
  const stat = await fs.lstat(root);
  if (stat.gid !== group) await fs.lchown(root, stat.uid, group);
  if (stat.isSymbolicLink()) return;
  const mode = stat.mode & 0o7777;
  const wanted = mode | (stat.isDirectory() ? 0o2770 : 0o660);
  // A change of the group takes setuid and setgid away.
  if (wanted !== mode || stat.gid !== group) await fs.chmod(root, wanted);
  if (!stat.isDirectory()) return;
  for await (const entry of await fs.opendir(root))
    await openToGroup(path.join(root, entry.name), group);
}

/**
 * Loads the drivers of disks that are plugged in. Nothing else does: cells have no udev, and what is loaded at the
 * start makes every pod wait.
 */
async function loadDiskDrivers(): Promise<void> {
  const missing = drivers.filter((name) => !existsSync(`/sys/module/${name}`));
  if (missing.length === 0) return;
  // A machine whose disks come otherwise need not have them; whether the disk comes is seen afterwards.
  await runCommand("modprobe", ["-a", ...missing]).catch(() => {});
}

import { existsSync } from "node:fs";
import fs from "node:fs/promises";
import path from "node:path";
import { runCommand } from "@kip/base";
import { canGrow, grow, prepareFileSystem } from "./file-system.ts";
import { findDisk, type FindDiskOptions } from "./find-disk.ts";
import { isMounted } from "./mount-points.ts";

/** Drivers with which a cell finds attached disks, by the kernel's names of loaded modules and the names for loading them. */
const drivers = ["virtio_scsi", "sd_mod"];

/** A disk that a pod uses. */
export interface DiskVolume {
  readonly serial: string;
  readonly readOnly: boolean;
  /** Group that may read and write everything on it: the pod's `fsGroup`. */
  readonly group?: number | undefined;
}

/**
 * Mounts the disk with the serial number at an existing folder, with its file system or a new one. If it is mounted there
 * already, only enlarges it.
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

/** Unmounts the disk. When this returns, everything is written to the disk, and it can be detached. */
export async function unmountDisk(directory: string): Promise<void> {
  if (await isMounted(directory)) await runCommand("umount", [directory]);
}

/**
 * Like the kubelet does for `fsGroup`: gives the group the owner's permissions, and lets later files inherit the group. Does
 * not read whole folders at once, and does not write what is already right.
 */
async function openToGroup(root: string, group: number): Promise<void> {
  const stat = await fs.lstat(root);
  if (stat.gid !== group) await fs.lchown(root, stat.uid, group);
  if (stat.isSymbolicLink()) return;
  const mode = stat.mode & 0o7777;
  const wanted = mode | (stat.isDirectory() ? 0o2770 : 0o660);
  // Changing the group removes setuid and setgid.
  if (wanted !== mode || stat.gid !== group) await fs.chmod(root, wanted);
  if (!stat.isDirectory()) return;
  for await (const entry of await fs.opendir(root))
    await openToGroup(path.join(root, entry.name), group);
}

/**
 * Loads the drivers for attached disks. Cells have no udev that would do it, and loading them at the start would delay every
 * pod.
 */
async function loadDiskDrivers(): Promise<void> {
  const missing = drivers.filter((name) => !existsSync(`/sys/module/${name}`));
  if (missing.length === 0) return;
  // A machine with other kinds of disks may not have them. Whether the disk appears is checked later.
  await runCommand("modprobe", ["-a", ...missing]).catch(() => {});
}

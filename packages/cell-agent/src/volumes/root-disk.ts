import { existsSync } from "node:fs";
import { readFile, readlink, stat } from "node:fs/promises";
import path from "node:path";
import { runCommand } from "@kip/base";
import { canGrow } from "./file-system.ts";
import type { Disk } from "./find-disk.ts";

/** Paths that describe a cell's root disk. Tests use their own. */
export interface RootDiskPlaces {
  /** Any folder of the root file system. */
  readonly root: string;
  /** The cell's boot script writes it after it has enlarged the file system. Other computers do not have it. */
  readonly bootDone: string;
  readonly sysDevBlock: string;
  readonly dev: string;
}

const cellPlaces: RootDiskPlaces = {
  root: "/",
  bootDone: "/run/kip/boot-done",
  sysDevBlock: "/sys/dev/block",
  dev: "/dev",
};

/** The programs that enlarge file systems and partitions. Tests use their own. */
export interface RootDiskPrograms {
  /** Enlarges a mounted file system to the size of its device. */
  readonly grow: (disk: Disk) => Promise<unknown>;
  /** Enlarges the last partition of a disk to the disk's end, by its device name. */
  readonly growPartition: (name: string) => Promise<unknown>;
}

const cellPrograms: RootDiskPrograms = {
  grow: async ({ file }) => await runCommand("resize2fs", [file]),
  growPartition: async (name) => await runCommand("/usr/lib/kip/grow-partition", [name]),
};

/**
 * Enlarges the root file system of a running cell to the size of its disk, which was enlarged if a pod with a larger disk has
 * taken a standby cell. If the disk has partitions, enlarges its partition first. Repeating it has no effect. Does nothing on a
 * computer that is not a cell.
 *
 * @throws errors of the system or of the programs
 */
export async function growRootFileSystem(
  places: RootDiskPlaces = cellPlaces,
  { grow, growPartition }: RootDiskPrograms = cellPrograms,
): Promise<void> {
  if (!existsSync(places.bootDone)) return;
  const { dev } = await stat(places.root);
  const device = path.join(places.sysDevBlock, deviceNumbers(dev));
  if (existsSync(path.join(device, "partition")))
    await growPartition(path.basename(await readlink(device)));
  const sectors = Number(await readFile(path.join(device, "size"), "utf8"));
  const file = path.join(places.dev, path.basename(await readlink(device)));
  const disk = { file, sizeBytes: sectors * 512 };
  if (await canGrow(disk)) await grow(disk);
}

/** In the kernel's notation, "253:0". */
export function deviceNumbers(dev: number): string {
  const major = Math.floor(dev / 2 ** 8) & 0xfff;
  const minor = (dev & 0xff) | (Math.floor(dev / 2 ** 12) & 0xfff00);
  return `${major}:${minor}`;
}

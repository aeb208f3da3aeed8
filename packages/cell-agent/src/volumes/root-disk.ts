import { existsSync } from "node:fs";
import { readFile, readlink, stat } from "node:fs/promises";
import path from "node:path";
import { runCommand } from "@kip/base";
import { canGrow } from "./file-system.ts";
import type { Disk } from "./find-disk.ts";

/** Where a cell shows its root disk. Tests have their own. */
export interface RootDiskPlaces {
  /** Any folder of the root file system. */
  readonly root: string;
  /** The boot of a cell writes it when it has grown the file system itself; other computers do not have it. */
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

/** The programs that grow things. Tests have their own. */
export interface RootDiskPrograms {
  /** A file system in use, to the size of its device. */
  readonly grow: (disk: Disk) => Promise<unknown>;
  /** The last partition of a disk, to the disk's end, by the name of its device. */
  readonly growPartition: (name: string) => Promise<unknown>;
}

const cellPrograms: RootDiskPrograms = {
  grow: async ({ file }) => await runCommand("resize2fs", [file]),
  growPartition: async (name) => await runCommand("/usr/lib/kip/grow-partition", [name]),
};

/**
 * Grows the root file system of a running cell to its disk, which is larger if a pod with a larger disk has taken a cell that
 * stood by; and first the partition that it is in, if the disk has any. Done again it changes nothing; on a computer that is not a
 * cell it does nothing.
 *
 * @throws Error of the system, or of the programs
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

/** As the kernel writes them, "253:0". */
export function deviceNumbers(dev: number): string {
  const major = Math.floor(dev / 2 ** 8) & 0xfff;
  const minor = (dev & 0xff) | (Math.floor(dev / 2 ** 12) & 0xfff00);
  return `${major}:${minor}`;
}

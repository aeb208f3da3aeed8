import { createHash } from "node:crypto";
import { sectorBytes } from "./loaders.ts";

/** A partition, in sectors. */
export interface Partition {
  readonly start: number;
  readonly sectors: number;
}

/** The partitions of a disk. */
export interface DiskLayout {
  readonly diskBytes: number;
  /** For a BIOS: the second part of the loader, without a file system. */
  readonly loader: Partition;
  /** FAT, with the loader for UEFI, kernel and initial file system. */
  readonly boot: Partition;
  /** The last partition, because it grows with the disk. */
  readonly root: Partition;
}

/** Name of the root partition, used on the kernel's command line. */
export const rootLabel = "kip-root";

const GiB = 2 ** 30;
const sectorsPerMiB = 2 ** 20 / sectorBytes;
const loaderMiB = 1;
const bootMiB = 64;

/** The layout for a root file system of the given size, on the smallest disk of whole GiB that can hold it. */
export function diskLayout(rootBytes: number): DiskLayout {
  const loader = { start: sectorsPerMiB, sectors: loaderMiB * sectorsPerMiB };
  const boot = { start: loader.start + loader.sectors, sectors: bootMiB * sectorsPerMiB };
  const start = boot.start + boot.sectors;
  const needed = start * sectorBytes + rootBytes + 2 ** 20; // a copy of the table is at the disk's end
  const diskBytes = Math.ceil(needed / GiB) * GiB;
  // Up to the last whole MiB before the copy.
  const sectors = diskBytes / sectorBytes - sectorsPerMiB - start;
  return { diskBytes, loader, boot, root: { start, sectors } };
}

/** The table in sfdisk's format. The same image gives the same IDs. */
export function partitionTable({ loader, boot, root }: DiskLayout, imageId: string): string {
  const guid = (name: string): string => {
    const hash = createHash("sha256").update(`${imageId} ${name}`).digest("hex").toUpperCase();
    return hash.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$/, "$1-$2-4$3-8$4-$5");
  };
  const line = ({ start, sectors }: Partition, type: string, name: string): string =>
    `start=${start}, size=${sectors}, type=${type}, uuid=${guid(name)}, name=${name}`;
  return [
    "label: gpt",
    `label-id: ${guid("disk")}`,
    "unit: sectors",
    line(loader, "21686148-6449-6E6F-744E-656564454649", "kip-loader"),
    line(boot, "uefi", "kip-boot"),
    line(root, "linux", rootLabel),
    "",
  ].join("\n");
}

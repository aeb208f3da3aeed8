import path from "node:path";
import { CloudError } from "@kip/cloud";
import { allocatedBytes } from "../machine/machine-process.ts";
import { volumeFolders } from "./volume-record.ts";

/** Smallest size of a disk. Sizes are rounded up to multiples of it. Bytes. */
const diskUnit = 2 ** 20;
/** Largest file that common file systems support with a margin, bytes. */
const largest = 2 ** 43;

/**
 * Rounds the size of a disk up to whole MiB.
 *
 * @param action completes "Cannot …" in the error, for example "make a volume of"
 * @throws {CloudError} `CLOUD_INVALID_REQUEST`
 */
export function diskSize(action: string, asked: number): number {
  if (!Number.isSafeInteger(asked) || asked < diskUnit || asked > largest) {
    throw new CloudError(
      "CLOUD_INVALID_REQUEST",
      `Cannot ${action} ${asked} bytes: a whole number from 1 MiB to 8 TiB is expected`,
    );
  }
  return Math.ceil(asked / diskUnit) * diskUnit;
}

/** Disk space that was promised to volumes and is not written yet, bytes. At most `reserve` of each counts. */
export async function unwrittenOfVolumes(stateDir: string, reserve: number): Promise<number> {
  const folders = volumeFolders(stateDir);
  const volumes = await folders.readAll();
  const parts = await Promise.all(
    volumes.map(async ({ id, sizeBytes }) => {
      const written = await allocatedBytes(path.join(folders.folderOf(id), "disk.raw"));
      return Math.max(0, Math.min(sizeBytes, reserve) - written);
    }),
  );
  return parts.reduce((total, part) => total + part, 0);
}

/**
 * Refuses a disk if there is not enough free space. Disks are sparse, so only the reserve must be free.
 *
 * @param action completes "Cannot …" in the error, for example "make a volume"
 * @param needed bytes that must be free
 * @param left free disk space without what was promised to others, bytes
 * @throws {CloudError} `CLOUD_NO_CAPACITY`
 */
export function checkDiskRoom(action: string, needed: number, left: number): void {
  if (needed <= left) return;
  throw new CloudError(
    "CLOUD_NO_CAPACITY",
    `Cannot ${action}: it needs ${mebibytes(needed)} of free disk and this machine has ${mebibytes(left)} left`,
    {
      remedy: "Free disk space below the state folder",
      scope: { zone: "local" },
      facts: { needed, left },
    },
  );
}

function mebibytes(value: number): string {
  return `${Math.max(0, Math.floor(value / 2 ** 20))} MiB`;
}

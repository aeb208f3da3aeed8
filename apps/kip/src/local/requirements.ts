import { statfs } from "node:fs/promises";
import { freemem } from "node:os";
import { readFileSync } from "node:fs";
import path from "node:path";
import { KipError } from "@kip/base";

const GiB = 2 ** 30;
/** Control plane, kip and one small cell. */
const neededMemoryBytes = 1.5 * GiB;
/** Sources and binaries of the control plane, the cell image and its parts. */
const neededDiskBytes = 6 * GiB;

/**
 * Checks what no later step could mend.
 *
 * @throws {KipError} `NOT_ROOT`, `HOST_TOO_SMALL`
 */
export async function checkHost(cacheDir: string, isCached: boolean): Promise<void> {
  requireRoot("start");
  const memory = availableMemory();
  if (memory < neededMemoryBytes) {
    throw new KipError(
      "HOST_TOO_SMALL",
      `Cannot start the local cluster: ${gib(memory)} GiB of memory are available, ${gib(neededMemoryBytes)} GiB are needed`,
      {
        remedy: "End other programs or use a machine with more memory",
      },
    );
  }
  const disk = await freeDisk(cacheDir);
  if (!isCached && disk < neededDiskBytes) {
    throw new KipError(
      "HOST_TOO_SMALL",
      `Cannot start the local cluster: ${gib(disk)} GiB of disk are free for "${cacheDir}", ${gib(neededDiskBytes)} GiB are needed`,
      {
        remedy: "Make room or choose another directory with --cache-dir",
      },
    );
  }
}

/** @throws {KipError} `NOT_ROOT` */
export function requireRoot(verb: "start" | "show" | "remove"): void {
  if (process.getuid?.() === 0) return;
  throw new KipError(
    "NOT_ROOT",
    `Cannot ${verb} the local cluster: its machines, network and state belong to root`,
    { remedy: "Run the same command with sudo" },
  );
}

function availableMemory(): number {
  const match = /^MemAvailable:\s+(\d+) kB/m.exec(readFileSync("/proc/meminfo", "utf8"));
  return match ? Number(match[1]) * 1024 : freemem();
}

/** Free bytes where a directory is, or will be made. */
async function freeDisk(directory: string): Promise<number> {
  for (let folder = directory; ; folder = path.dirname(folder)) {
    try {
      const { bavail, bsize } = await statfs(folder);
      return bavail * bsize;
    } catch (error) {
      if (folder === path.dirname(folder)) throw error;
    }
  }
}

function gib(value: number): string {
  return (value / GiB).toFixed(1);
}

import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import type { DesiredHugePages } from "@kip/agent-api";
import { formatBytes } from "@kip/base";
import type { EndReason } from "../state/pod-state.ts";

/** How often to ask the kernel for pages. It moves and frees memory each time. */
const maxTries = 5;

/** The kernel's folder of page pools, and the file that makes it compact memory. Tests use their own. */
export interface HugePagePlaces {
  readonly pools: string;
  readonly compaction: string;
}

const kernelPlaces: HugePagePlaces = {
  pools: "/sys/kernel/mm/hugepages",
  compaction: "/proc/sys/vm/compact_memory",
};

/**
 * Makes the kernel reserve huge pages for the pod. Repeating it has no effect.
 *
 * @returns why the pod cannot run on this cell, in the kubelet's words; undefined if all pages are reserved
 * @throws errors of the system
 */
export async function reserveHugePages(
  wanted: readonly DesiredHugePages[],
  places: HugePagePlaces = kernelPlaces,
): Promise<EndReason | undefined> {
  for (const { pageBytes, bytes } of wanted) {
    const pages = await reserve(pageBytes, Math.ceil(bytes / pageBytes), places);
    const reserved = pages * pageBytes;
    if (reserved >= bytes) continue;
    const name = `hugepages-${formatBytes(pageBytes)}`;
    return {
      reason: `OutOf${name}`,
      message: `Node didn't have enough resource: ${name}, requested: ${bytes}, used: 0, capacity: ${reserved}`,
    };
  }
  return undefined;
}

/** @returns the number of pages: 0 if the CPU or the kernel does not support this size */
async function reserve(pageBytes: number, count: number, places: HugePagePlaces): Promise<number> {
  const file = `${places.pools}/hugepages-${pageBytes / 1024}kB/nr_hugepages`;
  if (!existsSync(file)) return 0;
  let pages = 0;
  for (let tries = 0; tries < maxTries && pages < count; tries++) {
    if (tries > 0) await writeFile(places.compaction, "1");
    await writeFile(file, String(count));
    pages = Number(await readFile(file, "utf8"));
  }
  return pages;
}

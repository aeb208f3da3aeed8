import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { hasCode } from "@kip/base";
import { digestHex } from "../digest.ts";
import type { StoreFolder } from "./store-folder.ts";

/** What {@link collect} may remove. */
export interface CollectOptions {
  /** Trees are removed, the longest unused first, until the rest is at most so many bytes. */
  readonly maxBytes?: number;
  /** Trees that nobody used for so long are removed, milliseconds. @default only `maxBytes` counts */
  readonly maxIdleMs?: number;
  /** A tree that was used in the last so many milliseconds stays: somebody may be mounting it. @default 10 minutes */
  readonly graceMs?: number;
}

/** What was done. */
export interface Collected {
  readonly removed: readonly string[];
  readonly removedBytes: number;
  readonly keptBytes: number;
}

/**
 * Removes unpacked images by use and size. A tree that is mounted anywhere on the machine stays, and
 * so does one that was used just now. A tree leaves its name by a rename before it is taken apart,
 * so no other process ever finds half of one.
 */
export async function collect(
  folder: StoreFolder,
  options: CollectOptions,
  now: number,
): Promise<Collected> {
  const trees = folder.listTrees().map((tree) => ({ ...tree, idleMs: now - tree.usedAt }));
  const graceMs = options.graceMs ?? 600_000;
  const removed: string[] = [];
  let removedBytes = 0;
  let keptBytes = trees.reduce((sum, { bytes }) => sum + bytes, 0);
  for (const { hex, bytes, idleMs } of trees.sort((a, b) => b.idleMs - a.idleMs)) {
    const isIdle = idleMs > (options.maxIdleMs ?? Number.POSITIVE_INFINITY);
    const isTooMuch = keptBytes > (options.maxBytes ?? Number.POSITIVE_INFINITY);
    if (idleMs < graceMs || (!isIdle && !isTooMuch)) continue;
    // To look at all of them takes long: it may have been used since.
    if (now - folder.usedAt(hex) < graceMs || isMountedTree(`sha256:${hex}`)) continue;
    if (!(await folder.removeTree(hex))) continue;
    removed.push(hex);
    removedBytes += bytes;
    keptBytes -= bytes;
  }
  if (removed.length > 0) folder.removeDanglingRecords();
  return { removed, removedBytes, keptBytes };
}

/** Whether an overlay stands on a tree, in whatever mount namespace we may see: its options name the folder. */
export function isMountedTree(treeId: string): boolean {
  const hex = digestHex(treeId);
  const seen = new Set<string>();
  for (const id of ["self", ...readdirSync("/proc").filter((name) => /^\d+$/.test(name))]) {
    try {
      const namespace = readlinkSync(`/proc/${id}/ns/mnt`);
      if (seen.has(namespace)) continue;
      seen.add(namespace);
      if (readFileSync(`/proc/${id}/mountinfo`, "latin1").includes(hex)) return true;
    } catch (error) {
      // A process that has ended, or is none of our business.
      if (!hasCode(error, "ENOENT", "ESRCH", "EACCES", "EPERM", "EINVAL")) throw error;
    }
  }
  return false;
}

import { isMountedTree } from "./mounted-trees.ts";
import type { StoreFolder } from "./store-folder.ts";

/** What {@link collect} may remove. */
export interface CollectOptions {
  /** Trees are removed, the longest unused first, until the rest is at most so many bytes. */
  readonly maxBytes?: number | undefined;
  /** Trees that were not used for so long are removed, milliseconds. @default only `maxBytes` counts */
  readonly maxIdleMs?: number | undefined;
  /** A tree that was used in the last so many milliseconds stays: somebody may be mounting it. @default 10 minutes */
  readonly graceMs?: number | undefined;
}

/** What was done. */
export interface Collected {
  readonly removed: readonly string[];
  readonly removedBytes: number;
  readonly keptBytes: number;
}

/**
 * Removes unpacked images by use and size. A tree that is mounted anywhere on the machine stays, and
 * so does one that was used just now. A tree leaves its name by a rename before it is looked at for the last time, so
 * that it cannot be mounted in between, and before it is taken apart, so that no other process ever finds half of one.
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
    const isUsed = (): boolean => now - folder.usedAt(hex) < graceMs || isMountedTree(hex);
    if (isUsed() || !(await folder.removeTree(hex, isUsed))) continue;
    removed.push(hex);
    removedBytes += bytes;
    keptBytes -= bytes;
  }
  if (removed.length > 0) folder.removeDanglingRecords();
  return { removed, removedBytes, keptBytes };
}

import { isMountedTree } from "./mounted-trees.ts";
import type { StoreFolder } from "./store-folder.ts";

/** Limits for {@link collect}. */
export interface CollectOptions {
  /** Trees are removed, the longest unused first, until the rest has at most this size. */
  readonly maxBytes?: number | undefined;
  /** Trees that were unused for this long are removed, milliseconds. @default only `maxBytes` counts */
  readonly maxIdleMs?: number | undefined;
  /** Trees that were used within this time stay, milliseconds, because they may be about to be mounted. @default 10 minutes */
  readonly graceMs?: number | undefined;
}

/** The result of {@link collect}. */
export interface Collected {
  readonly removed: readonly string[];
  readonly removedBytes: number;
  readonly keptBytes: number;
}

/**
 * Removes unpacked images by last use and size. Keeps trees that are mounted anywhere on the machine or were just used. A tree
 * is renamed before the last check, so that it cannot be mounted after that, and before it is deleted, so that other processes
 * never see an incomplete tree.
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
    // Listing all trees takes long, so it may have been used since.
    const isUsed = (): boolean => now - folder.usedAt(hex) < graceMs || isMountedTree(hex);
    if (isUsed() || !(await folder.removeTree(hex, isUsed))) continue;
    removed.push(hex);
    removedBytes += bytes;
    keptBytes -= bytes;
  }
  if (removed.length > 0) folder.removeDanglingRecords();
  return { removed, removedBytes, keptBytes };
}

import { open } from "node:fs/promises";
import { inParallel } from "@kip/base";
import type { Ebs } from "./ebs.ts";
import { blockBytes, readBlock, type DiskBlocks } from "./disk-blocks.ts";

/** Parameters of {@link uploadBlocks}. */
export interface UploadOptions {
  readonly ebs: Ebs;
  readonly snapshotId: string;
  readonly disk: DiskBlocks;
  /** How many blocks are sent at the same time, 1 or more. Each takes half a MiB of memory. */
  readonly inFlight: number;
  readonly signal?: AbortSignal | undefined;
  /** Called with the number of blocks uploaded so far. */
  readonly onBlock?: ((done: number) => void) | undefined;
}

/**
 * Writes all blocks of a disk into a pending snapshot. Blocks that the snapshot already has are written again.
 *
 * @throws {CloudError} the first failure, after all running calls have ended
 * @throws the signal's reason
 */
export async function uploadBlocks(options: UploadOptions): Promise<void> {
  const { ebs, snapshotId, disk, inFlight, onBlock } = options;
  const failed = new AbortController();
  const signal = AbortSignal.any([failed.signal, ...(options.signal ? [options.signal] : [])]);
  let done = 0;
  await using handle = await open(disk.file, "r");
  await inParallel(disk.blocks, inFlight, async ({ index, checksum }) => {
    const block = Buffer.allocUnsafe(blockBytes);
    await readBlock(handle, index, block);
    const input = {
      SnapshotId: snapshotId,
      BlockIndex: index,
      BlockData: block,
      DataLength: blockBytes,
      Checksum: checksum,
      ChecksumAlgorithm: "SHA256" as const,
    };
    const purpose = `write block ${index} of snapshot ${snapshotId}`;
    try {
      await ebs.call("PutSnapshotBlock", input, { purpose, signal });
    } catch (error) {
      failed.abort(error);
      throw error;
    }
    onBlock?.(++done);
  });
}

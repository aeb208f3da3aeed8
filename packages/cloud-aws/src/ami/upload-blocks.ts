import { open } from "node:fs/promises";
import type { Ebs } from "./ebs.ts";
import { blockBytes, readBlock, type DiskBlocks } from "./disk-blocks.ts";

/** What {@link uploadBlocks} works with. */
export interface UploadOptions {
  readonly ebs: Ebs;
  readonly snapshotId: string;
  readonly disk: DiskBlocks;
  /** How many blocks are sent at a time, 1 or more; each takes half a MiB of memory. */
  readonly inFlight: number;
  readonly signal?: AbortSignal | undefined;
  /** Called with how many blocks are there. */
  readonly onBlock?: ((done: number) => void) | undefined;
}

/**
 * Writes all blocks of a disk into a snapshot that is pending. A block that is there already is written again.
 *
 * @throws {CloudError} the first failure, once no call is under way
 * @throws the signal's reason
 */
export async function uploadBlocks(options: UploadOptions): Promise<void> {
  const { ebs, snapshotId, disk, inFlight, onBlock } = options;
  const failed = new AbortController();
  const signal = AbortSignal.any([failed.signal, ...(options.signal ? [options.signal] : [])]);
  const blocks = disk.blocks.values();
  let done = 0;
  await using handle = await open(disk.file, "r");
  const sendInTurn = async (): Promise<void> => {
    const buffer = Buffer.allocUnsafe(blockBytes);
    // All of them take from one iterator, so each block is taken once.
    for (const { index, checksum } of blocks) {
      await readBlock(handle, index, buffer);
      const input = {
        SnapshotId: snapshotId,
        BlockIndex: index,
        BlockData: buffer,
        DataLength: blockBytes,
        Checksum: checksum,
        ChecksumAlgorithm: "SHA256" as const,
      };
      const purpose = `write block ${index} of snapshot ${snapshotId}`;
      await ebs.call("PutSnapshotBlock", input, { purpose, signal });
      onBlock?.(++done);
    }
  };
  const senders = Array.from({ length: inFlight }, sendInTurn);
  await Promise.all(senders).catch(async (error: unknown) => {
    failed.abort(error);
    await Promise.allSettled(senders);
    throw error;
  });
}

import { createHash } from "node:crypto";
import { open, type FileHandle } from "node:fs/promises";

/** Size of a block of a snapshot, bytes. */
export const blockBytes = 512 * 1024;

const GiB = 2 ** 30;
const zeros = Buffer.alloc(blockBytes);

/** A block that is not all zeros. */
export interface DiskBlock {
  /** Position on the disk, in blocks. */
  readonly index: number;
  /** SHA-256 of the block's bytes, base64. */
  readonly checksum: string;
}

/** The content of a disk image's snapshot. */
export interface DiskBlocks {
  readonly file: string;
  /** Size of the disk, rounded up to whole GiB because volumes have whole GiB. */
  readonly sizeGiB: number;
  /** In ascending order. */
  readonly blocks: readonly DiskBlock[];
  /** SHA-256 over the checksums of all blocks, base64. EBS calls this the linear aggregation. */
  readonly checksum: string;
  /** Identifies the content: equal for equal disks. 32 hexadecimal digits. */
  readonly digest: string;
}

/** Reads a raw disk image once, to find the blocks with content and their checksums. */
export async function surveyDisk(file: string, signal?: AbortSignal): Promise<DiskBlocks> {
  await using handle = await open(file, "r");
  const { size } = await handle.stat();
  const blocks: DiskBlock[] = [];
  const [all, content] = [createHash("sha256"), createHash("sha256")];
  const buffer = Buffer.allocUnsafe(blockBytes);
  for (let index = 0; index * blockBytes < size; index++) {
    signal?.throwIfAborted();
    await readBlock(handle, index, buffer);
    if (buffer.equals(zeros)) continue;
    const sum = createHash("sha256").update(buffer).digest();
    blocks.push({ index, checksum: sum.toString("base64") });
    all.update(sum);
    content.update(`${index} ${sum.toString("hex")}\n`);
  }
  const sizeGiB = Math.max(1, Math.ceil(size / GiB));
  return {
    file,
    sizeGiB,
    blocks,
    checksum: all.digest("base64"),
    digest: content.update(`${sizeGiB}`).digest("hex").slice(0, 32),
  };
}

/** Reads a block into a buffer, and pads it with zeros after the end of the file. */
export async function readBlock(handle: FileHandle, index: number, buffer: Buffer): Promise<void> {
  let filled = 0;
  while (filled < blockBytes) {
    const at = index * blockBytes + filled;
    const { bytesRead } = await handle.read(buffer, filled, blockBytes - filled, at);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  buffer.fill(0, filled);
}

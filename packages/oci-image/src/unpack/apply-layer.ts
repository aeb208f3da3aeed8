import { setImmediate } from "node:timers/promises";
import { digestMismatch, limitExceeded } from "../errors.ts";
import type { Hashing } from "../hashing.ts";
import { TarParser } from "../tar/tar-parser.ts";
import { inflate } from "./inflate.ts";
import type { UnpackLimits } from "./limits.ts";
import type { TreeWriter } from "./tree-writer.ts";

/** What is left of an image's limit of bytes; layers share one. */
export interface ByteBudget {
  left: number;
}

/**
 * Applies one layer to a tree while its blob arrives: inflates, hashes, parses and writes, all in
 * step with the source, with memory for a few chunks.
 *
 * @param blob the blob; its own digest is checked by the stream
 * @throws {ImageError} codes `IMAGE_INVALID`, `IMAGE_UNSAFE_ENTRY`, `IMAGE_LIMIT_EXCEEDED`,
 * `IMAGE_DIGEST_MISMATCH` if the inflated bytes are not those of `diffId`; the tree is then useless
 */
export async function applyLayer(
  blob: AsyncIterable<Uint8Array>,
  tree: TreeWriter,
  options: {
    readonly diffId: string;
    readonly limits: UnpackLimits;
    readonly budget: ByteBudget;
    readonly hashing: Hashing;
    /** The layer is inflated in pieces of so many bytes. @default 131072 */
    readonly pieceBytes?: number | undefined;
    readonly signal?: AbortSignal | undefined;
  },
): Promise<void> {
  const hash = options.hashing.sha256();
  const parser = new TarParser(tree);
  for await (const chunk of inflate(blob, options.pieceBytes)) {
    options.signal?.throwIfAborted();
    options.budget.left -= chunk.length;
    if (options.budget.left < 0) {
      throw limitExceeded("unpacked bytes", options.limits.unpackedBytes);
    }
    const room = hash.update(chunk);
    if (room) await room;
    await writeInTurns(parser, chunk, tree);
  }
  parser.end();
  const actual = `sha256:${await hash.digest()}`;
  if (actual !== options.diffId) throw digestMismatch("its content", options.diffId, actual);
  tree.nextLayer();
}

/**
 * Writes what a chunk holds. An image may have thousands of special files, each of which takes the start of a program in which
 * nothing else of this process runs; other work gets its turn after each.
 */
async function writeInTurns(parser: TarParser, chunk: Buffer, tree: TreeWriter): Promise<void> {
  for (let at = 0; at < chunk.length;) {
    const { runs } = tree;
    at += parser.write(chunk.subarray(at), () => tree.runs > runs);
    if (at < chunk.length) await setImmediate();
  }
}

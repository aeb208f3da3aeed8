import { setImmediate } from "node:timers/promises";
import { digestMismatch, limitExceeded } from "../errors.ts";
import type { Hashing } from "../hashing.ts";
import { TarParser } from "../tar/tar-parser.ts";
import { inflate } from "./inflate.ts";
import type { UnpackLimits } from "./limits.ts";
import type { TreeWriter } from "./tree-writer.ts";

/** The remaining part of an image's byte limit, shared by its layers. */
export interface ByteBudget {
  left: number;
}

/**
 * Applies a layer to a tree while its blob arrives. Inflates, hashes, parses and writes at the speed of the source, and only
 * keeps a few chunks in memory.
 *
 * @param blob the blob. The stream verifies its digest
 * @throws {ImageError} codes `IMAGE_INVALID`, `IMAGE_UNSAFE_ENTRY`, `IMAGE_LIMIT_EXCEEDED`, `IMAGE_DIGEST_MISMATCH` if the
 * inflated bytes do not match `diffId`. The tree is then unusable
 */
export async function applyLayer(
  blob: AsyncIterable<Uint8Array>,
  tree: TreeWriter,
  options: {
    readonly diffId: string;
    readonly limits: UnpackLimits;
    readonly budget: ByteBudget;
    readonly hashing: Hashing;
    /** Size of the pieces in which the layer is inflated. @default 131072 */
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
 * Writes the content of a chunk. An image may have thousands of special files. Each needs a program, during which this process
 * does nothing else, so other work gets a turn after each. The same goes for entries that remove thousands of files.
 */
async function writeInTurns(parser: TarParser, chunk: Buffer, tree: TreeWriter): Promise<void> {
  for (let at = 0; at < chunk.length;) {
    const { runs } = tree;
    at += parser.write(chunk.subarray(at), () => tree.runs > runs || tree.isHiding);
    for (; tree.isHiding; tree.hideMore()) await setImmediate();
    if (at < chunk.length) await setImmediate();
  }
}

import type { Readable } from "node:stream";
import { bytesOf } from "./node-objects.ts";

/**
 * Resolves with the content of a stream, without an encoding, when its first bytes or its end have come: an answer that begins then can
 * still say that there is nothing to read.
 *
 * @throws what reading the first bytes does
 */
export async function begunStream(stream: Readable): Promise<AsyncIterable<Buffer>> {
  const pieces = bytesOf(stream)[Symbol.asyncIterator]();
  const first = await pieces.next();
  return (async function* () {
    try {
      for (let piece = first; piece.done !== true; piece = await pieces.next()) yield piece.value;
    } finally {
      await pieces.return?.();
    }
  })();
}

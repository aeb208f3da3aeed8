import type { Readable } from "node:stream";
import { bytesOf } from "./node-objects.ts";

/**
 * Resolves with the content of a stream once its first bytes have arrived or it has ended. A server that answers only then can
 * still report that there is nothing to read. The stream must not have an encoding.
 *
 * @throws the stream's error, if it fails before its first bytes
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

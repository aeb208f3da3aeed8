import type { Readable } from "node:stream";
import { GrowingBuffer } from "./growing-buffer.ts";

/** Pieces of at least this length are passed on as they are, bytes. */
const largePieceBytes = 4096;
/** Small pieces are passed on when they have this length together, bytes, whether their reader waits or not. */
const mergedBytes = 16 * 1024;
const nothing = Buffer.alloc(0);

/**
 * Merges small pieces of a stream while its reader has others to read. A piece takes some 130 bytes of memory besides its
 * content, and keeps all of the memory that it is a part of; a hostile peer sends one for each byte. A reader that waits gets
 * a piece at once.
 *
 * @returns tells how many bytes are held back, besides those that `readableLength` counts
 */
export function mergeSmallPieces(stream: Readable): () => number {
  const push = stream.push.bind(stream);
  const read = stream._read.bind(stream);
  const held = new GrowingBuffer();
  const flush = (): boolean => held.length === 0 || push(held.take());
  stream.push = (piece: Buffer | null, encoding?: BufferEncoding) => {
    if (piece === null || !isSmall(piece)) {
      flush();
      return push(piece, encoding);
    }
    if (stream.readableLength === 0 && held.length === 0) return push(piece, encoding);
    held.append(piece);
    if (stream.readableLength === 0 || held.length >= mergedBytes) return flush();
    return stream.readableLength + held.length < stream.readableHighWaterMark;
  };
  stream._read = (size) => {
    // Node calls this before it takes from its buffer, and not again before something is pushed, if only nothing.
    if (stream.readableLength > 0) push(nothing);
    else flush();
    read(size);
  };
  return () => held.length;
}

/** Whether a piece is short, or a small part of the memory that it keeps. */
function isSmall(piece: Buffer): boolean {
  return piece.length < largePieceBytes || piece.length * 4 < piece.buffer.byteLength;
}

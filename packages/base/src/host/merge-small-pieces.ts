import type { Readable } from "node:stream";
import { GrowingBuffer } from "./growing-buffer.ts";

/** Pieces of at least this length are passed on unchanged, bytes. */
const largePieceBytes = 4096;
/** Small pieces are passed on once they have this length together, bytes, even if the reader is busy. */
const mergedBytes = 16 * 1024;
const emptyPiece = Buffer.alloc(0);

/** Can delay small pieces, so that a peer that sends many leaves time for others. */
export interface PiecePace {
  /** A small piece arrived. */
  received(bytes: number): void;
  /** @returns undefined if pieces may be passed on now, else a promise that resolves when it is time to ask again */
  wait(): Promise<void> | undefined;
}

const unhurried: PiecePace = { received: () => {}, wait: () => undefined };

/**
 * Merges small pieces of a stream while its reader is busy. A piece takes some 130 bytes of memory besides its content, and
 * keeps the whole buffer alive that it is a slice of. A hostile peer sends one for each byte. A waiting reader gets a piece at
 * once, unless the pace asks to wait: pieces are then merged too, and the peer is not asked for more.
 *
 * @returns a function that returns how many bytes are held back, besides those that `readableLength` counts
 */
export function mergeSmallPieces(stream: Readable, pace = unhurried): () => number {
  const push = stream.push.bind(stream);
  const read = stream._read.bind(stream);
  const held = new GrowingBuffer();
  let isHeldUp = false;
  let isAskedForMore = false;
  const flush = (): boolean => held.length === 0 || push(held.take());
  const holdUp = async (wait: Promise<void>): Promise<void> => {
    isHeldUp = true;
    for (let next: Promise<void> | undefined = wait; next && !stream.destroyed; next = pace.wait())
      await next;
    isHeldUp = false;
    if (stream.destroyed) return;
    if (stream.readableLength === 0) flush();
    if (isAskedForMore) read(stream.readableHighWaterMark);
    isAskedForMore = false;
  };
  stream.push = (piece: Buffer | null, encoding?: BufferEncoding) => {
    if (piece === null || !isSmall(piece)) {
      flush();
      return push(piece, encoding) && !isHeldUp;
    }
    pace.received(piece.length);
    const wait = isHeldUp ? undefined : pace.wait();
    if (wait) void holdUp(wait);
    if (stream.readableLength === 0 && held.length === 0 && !isHeldUp) return push(piece, encoding);
    held.append(piece);
    if ((stream.readableLength === 0 && !isHeldUp) || held.length >= mergedBytes)
      return flush() && !isHeldUp;
    return !isHeldUp && stream.readableLength + held.length < stream.readableHighWaterMark;
  };
  stream._read = (size) => {
    // Node calls this before it reads from its buffer. It does not call it again until something is pushed, even if empty.
    if (stream.readableLength > 0) push(emptyPiece);
    else if (!isHeldUp) flush();
    if (isHeldUp) isAskedForMore = true;
    else read(size);
  };
  return () => held.length;
}

/** Whether a piece is short, or a small part of the buffer that it keeps alive. */
function isSmall(piece: Buffer): boolean {
  return piece.length < largePieceBytes || piece.length * 4 < piece.buffer.byteLength;
}

import type { Readable } from "node:stream";
import { GrowingBuffer } from "./growing-buffer.ts";

/** Pieces of at least this length are passed on as they are, bytes. */
const largePieceBytes = 4096;
/** Small pieces are passed on when they have this length together, bytes, whether their reader waits or not. */
const mergedBytes = 16 * 1024;
const nothing = Buffer.alloc(0);

/** What may hold small pieces up, so that a peer that sends many leaves time for others. */
export interface PiecePace {
  /** A small piece has come. */
  received(bytes: number): void;
  /** @returns undefined if pieces may be passed on now, else a promise that resolves when it is worth asking again */
  wait(): Promise<void> | undefined;
}

const unhurried: PiecePace = { received: () => {}, wait: () => undefined };

/**
 * Merges small pieces of a stream while its reader has others to read. A piece takes some 130 bytes of memory besides its
 * content, and keeps all of the memory that it is a part of; a hostile peer sends one for each byte. A reader that waits gets
 * a piece at once, unless the pace says to wait: they are merged then, too, and the peer is not asked for more.
 *
 * @returns tells how many bytes are held back, besides those that `readableLength` counts
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
    // Node calls this before it takes from its buffer, and not again before something is pushed, if only nothing.
    if (stream.readableLength > 0) push(nothing);
    else if (!isHeldUp) flush();
    if (isHeldUp) isAskedForMore = true;
    else read(size);
  };
  return () => held.length;
}

/** Whether a piece is short, or a small part of the memory that it keeps. */
function isSmall(piece: Buffer): boolean {
  return piece.length < largePieceBytes || piece.length * 4 < piece.buffer.byteLength;
}

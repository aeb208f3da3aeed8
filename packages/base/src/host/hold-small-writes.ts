import type { Writable } from "node:stream";

/** Pieces of at least this length may wait in the stream's own buffer, bytes. */
const largePieceBytes = 4096;
/** How many smaller pieces may wait there. */
const maxSmallPieces = 16;

/**
 * Makes a stream's `write` return false when 16 pieces below 4 KiB are still buffered. Without this, a stream counts only
 * bytes, and each single byte that is written would occupy some 200 bytes of memory. A writer that waits for "drain" can merge
 * the pieces that arrive in the meantime, see `mergeSmallPieces`.
 */
export function holdSmallWrites(stream: Writable): void {
  const write = stream.write.bind(stream) as Write;
  let unsent = 0;
  let isHeld = false;
  const left = (): void => {
    unsent -= 1;
    if (!isHeld || unsent > maxSmallPieces / 2 || stream.writableNeedDrain || stream.destroyed)
      return;
    isHeld = false;
    stream.emit("drain");
  };
  stream.write = (piece: Uint8Array | string, encoding?: BufferEncoding | Sent, sent?: Sent) => {
    const done = typeof encoding === "function" ? encoding : sent;
    const named = typeof encoding === "string" ? encoding : "utf8";
    if (piece.length >= largePieceBytes) return write(piece, named, done);
    unsent += 1;
    const hasRoom = write(piece, named, (error) => {
      done?.(error);
      left();
    });
    if (unsent < maxSmallPieces) return hasRoom;
    isHeld = true;
    return false;
  };
}

type Sent = (error: Error | null | undefined) => void;
type Write = (piece: Uint8Array | string, encoding: BufferEncoding, sent?: Sent) => boolean;

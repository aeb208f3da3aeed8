import { Writable, type Readable } from "node:stream";
import type { Channel, FrameWriter } from "@kip/agent-api";
import { pause, systemClock } from "@kip/base";

// Kip reads a cell's small pieces slowly: each costs 5 us of the 3 % of a thread that all streams of a cell share. A program that
// prints each line by itself, or a server that sends such pieces, would stop them all for seconds. So what a stream has sent waits
// a little, once it has sent many small pieces, and what comes meanwhile goes as one.

/** Larger pieces never wait, bytes. */
const smallBytes = 4096;
/** A stream sends so many small pieces in a second, */
const piecesPerSecond = 1000;
/** and so many at once. */
const piecesAtOnce = 50;

/**
 * The pace of one stream.
 *
 * @param gone aborts when nothing more can be sent
 * @returns resolves when the next piece may go, after one of so many bytes
 */
function smallPiecePace(gone: AbortSignal): (bytes: number) => Promise<void> {
  const pieceMs = 1000 / piecesPerSecond;
  let nextAt = 0;
  return async (bytes) => {
    if (bytes >= smallBytes) return;
    const now = systemClock.monotonic();
    nextAt = Math.max(nextAt, now - piecesAtOnce * pieceMs) + pieceMs;
    if (nextAt > now) await pause(nextAt - now, systemClock, gone);
  };
}

/** What a process prints, as frames of a channel. @param gone aborts when nothing more can be sent */
export function framedOutput(writer: FrameWriter, channel: Channel, gone: AbortSignal): Writable {
  const rest = smallPiecePace(gone);
  const send = async (bytes: Buffer): Promise<void> => {
    await writer.write(channel, bytes);
    await rest(bytes.length);
  };
  return new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      send(chunk).then(() => done(), done);
    },
    writev: (chunks, done) => {
      const pieces = chunks.map(({ chunk }) => chunk as Buffer); // strings are decoded before
      send(Buffer.concat(pieces)).then(() => done(), done);
    },
  });
}

/** What a server sends; all that its stream holds is one piece. @param gone aborts when nothing more can be sent */
export async function* mergedPieces(source: Readable, gone: AbortSignal): AsyncGenerator<Buffer> {
  const rest = smallPiecePace(gone);
  for await (const piece of source.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    yield piece;
    await rest(piece.length);
  }
}

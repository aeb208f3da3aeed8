import { Writable, type Readable } from "node:stream";
import type { Channel, FrameWriter } from "@kip/agent-api";
import { pause, systemClock } from "@kip/base";

// Kip reads a cell's small pieces slowly: each costs 5 us of the 3 % of a thread that all streams of a cell share. A program that
// prints each line by itself, or a server that sends such pieces, would stop them all, for as long as it goes on. So what a stream has
// sent waits a little, once it has sent many small pieces, and what comes meanwhile goes as one.

/** Larger pieces never wait, bytes. */
const smallBytes = 4096;

/** Small pieces that may go in a second, and at once. */
class Pace {
  readonly #pieceMs: number;
  readonly #atOnceMs: number;
  #nextAt = 0;

  constructor(perSecond: number, atOnce: number) {
    this.#pieceMs = 1000 / perSecond;
    this.#atOnceMs = atOnce * this.#pieceMs;
  }

  /** Counts a piece. @returns milliseconds until the next may go, 0 or less for at once */
  count(now: number): number {
    this.#nextAt = Math.max(this.#nextAt, now - this.#atOnceMs) + this.#pieceMs;
    return this.#nextAt - now;
  }
}

/** Of all streams of this agent, which is a process of its own. Kip takes 6,000. */
const all = new Pace(3000, 500);

/**
 * The pace of one stream.
 *
 * @param gone aborts when nothing more can be sent
 * @returns resolves when the next piece may go, after one of so many bytes
 */
function smallPiecePace(gone: AbortSignal): (bytes: number) => Promise<void> {
  const own = new Pace(1000, 50);
  return async (bytes) => {
    if (bytes >= smallBytes) return;
    const now = systemClock.monotonic();
    const ms = Math.max(own.count(now), all.count(now));
    if (ms > 0) await pause(ms, systemClock, gone);
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

/** What a server sends, or a log that is followed; all that its stream holds is one piece. @param gone aborts when nothing more can be sent */
export async function* mergedPieces(source: Readable, gone: AbortSignal): AsyncGenerator<Buffer> {
  const rest = smallPiecePace(gone);
  for await (const piece of source.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    yield piece;
    await rest(piece.length);
  }
}

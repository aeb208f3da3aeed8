import { Writable, type Readable } from "node:stream";
import type { Channel, FrameWriter } from "@kip/agent-api";
import { pause, systemClock } from "@kip/base";

// Kip reads a cell's small pieces slowly: each costs 5 µs of the 3 % of a thread that all streams of a cell share. A program
// that prints single lines, or a server that sends small pieces, would delay all of them for as long as it continues. So after
// a stream has sent many small pieces, it pauses briefly, and what arrives meanwhile is sent as one piece.

/** Pieces of at least this size never wait, bytes. Kip does not count them either. */
const smallBytes = 512;

/** A rate limit for small pieces: per second, and in a burst. */
class Pace {
  readonly #pieceMs: number;
  readonly #atOnceMs: number;
  #nextAt = 0;

  constructor(perSecond: number, atOnce: number) {
    this.#pieceMs = 1000 / perSecond;
    this.#atOnceMs = atOnce * this.#pieceMs;
  }

  /** Counts a piece. @returns milliseconds until the next one may be sent, 0 or less for at once */
  count(now: number): number {
    this.#nextAt = Math.max(this.#nextAt, now - this.#atOnceMs) + this.#pieceMs;
    return this.#nextAt - now;
  }
}

/** The limit for all streams of this agent process. Kip accepts 6,000. */
const all = new Pace(3000, 500);

/**
 * The rate limit of one stream.
 *
 * @param gone aborts when nothing more can be sent
 * @returns a function that resolves when the next piece may be sent, after a piece of the given size
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

/** Sends a process's output as frames of a channel. @param gone aborts when nothing more can be sent */
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
      const pieces = chunks.map(({ chunk }) => chunk as Buffer); // strings were already decoded
      send(Buffer.concat(pieces)).then(() => done(), done);
    },
  });
}

/**
 * Merges the pieces from a server or a followed log: everything buffered in the stream becomes one piece. @param gone aborts
 * when nothing more can be sent
 */
export async function* mergedPieces(source: Readable, gone: AbortSignal): AsyncGenerator<Buffer> {
  const rest = smallPiecePace(gone);
  for await (const piece of source.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    yield piece;
    await rest(piece.length);
  }
}

import { Readable } from "node:stream";
import { untilAborted, type Clock } from "@kip/base";
import type { LogOptions } from "../pod-provider.ts";

/** A line, or a part of a line that was written at once. */
interface Piece {
  readonly timeMs: number;
  readonly stream: "Stdout" | "Stderr";
  readonly bytes: Buffer;
  /** Whether it starts a line. */
  readonly isStart: boolean;
}

/** Options of {@link ContainerLog}. */
export interface ContainerLogOptions {
  readonly clock: Pick<Clock, "now">;
  /** Memory limit, bytes. A line takes some 130 bytes besides its text. The oldest lines are dropped first. @default 1048576 */
  readonly maxBytes?: number | undefined;
}

const newline = 10;
/** Memory of a piece besides its text, bytes. */
const pieceBytes = 128;

/**
 * A container's output in memory, read as `kubectl logs` asks for it: the last lines, those since a
 * time, with timestamps, one stream alone, cut off, followed. For providers whose backend has no log.
 *
 * @example
 * ```ts
 * import { text } from "node:stream/consumers";
 * import { ContainerLog, systemClock } from "@kip/virtual-kubelet";
 *
 * const log = new ContainerLog({ clock: systemClock });
 * log.write("Stdout", "starting\nlistening on 80\n");
 * log.write("Stderr", "no TLS\n");
 * log.end();
 * const options = { follow: false, previous: false, timestamps: false, tailLines: 2 };
 * const { signal } = new AbortController();
 * assert.equal(await text(log.read(options, signal)), "listening on 80\nno TLS\n");
 * ```
 */
export class ContainerLog {
  readonly #clock: Pick<Clock, "now">;
  readonly #maxBytes: number;
  #pieces: Piece[] = [];
  /** Number of the first piece that is still stored. */
  #first = 0;
  #bytes = 0;
  #isEnded = false;
  #changed = Promise.withResolvers<void>();

  constructor({ clock, maxBytes = 1024 * 1024 }: ContainerLogOptions) {
    this.#clock = clock;
    this.#maxBytes = maxBytes;
  }

  /** Adds output. */
  write(stream: "Stdout" | "Stderr", output: Uint8Array | string): void {
    const chunk = Buffer.from(output);
    const timeMs = this.#clock.now();
    for (let from = 0; from < chunk.length;) {
      const end = chunk.indexOf(newline, from);
      const to = end < 0 ? chunk.length : end + 1;
      const before = this.#pieces.findLast((piece) => piece.stream === stream);
      const isStart = before === undefined || before.bytes.at(-1) === newline;
      this.#pieces.push({ timeMs, stream, bytes: chunk.subarray(from, to), isStart });
      this.#bytes += to - from + pieceBytes;
      from = to;
    }
    this.#drop();
    this.#change();
  }

  /** Ends the log and the streams that follow it. */
  end(): void {
    this.#isEnded = true;
    this.#change();
  }

  /** Like `PodProvider.logs`. The provider itself handles `previous`. */
  read(options: LogOptions, signal: AbortSignal): Readable {
    return Readable.from(this.#read(options, signal), { objectMode: false });
  }

  async *#read(options: LogOptions, signal: AbortSignal): AsyncGenerator<Buffer> {
    let left = options.limitBytes ?? Number.POSITIVE_INFINITY;
    let next = this.#begin(options);
    while (!signal.aborted) {
      const changed = this.#changed.promise;
      const isEnded = this.#isEnded;
      // A slow reader misses pieces that were dropped in the meantime.
      const pieces = this.#pieces.slice(Math.max(0, next - this.#first));
      next = this.#first + this.#pieces.length;
      for (const piece of pieces.filter((each) => isWanted(each, options))) {
        const bytes = printed(piece, options).subarray(0, left);
        left -= bytes.length;
        if (bytes.length > 0) yield bytes;
      }
      if (left <= 0 || !options.follow || isEnded) return;
      await untilAborted(changed, signal).catch(() => {}); // the loop ends
    }
  }

  /** Number of the first piece to show. */
  #begin(options: LogOptions): number {
    const { tailLines } = options;
    if (tailLines === undefined) return this.#first;
    const starts = this.#pieces.flatMap((piece, index) =>
      piece.isStart && isWanted(piece, options) ? [index] : [],
    );
    const start = tailLines === 0 ? undefined : starts.at(-Math.min(tailLines, starts.length));
    return this.#first + (start ?? this.#pieces.length);
  }

  /** Drops a quarter at a time, so that this is not done for each line. */
  #drop(): void {
    if (this.#bytes <= this.#maxBytes) return;
    let count = 0;
    for (; this.#bytes > this.#maxBytes * 0.75 && count < this.#pieces.length - 1; count++)
      this.#bytes -= (this.#pieces[count]?.bytes.length ?? 0) + pieceBytes;
    this.#pieces.splice(0, count);
    this.#first += count;
  }

  #change(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }
}

function isWanted(piece: Piece, { sinceTimeMs, stream }: LogOptions): boolean {
  return piece.timeMs >= (sinceTimeMs ?? 0) && (stream === undefined || stream === piece.stream);
}

function printed({ timeMs, bytes, isStart }: Piece, { timestamps }: LogOptions): Buffer {
  if (!timestamps || !isStart) return bytes;
  return Buffer.concat([Buffer.from(`${new Date(timeMs).toISOString()} `), bytes]);
}

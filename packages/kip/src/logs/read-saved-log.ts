import { constants } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import { Readable } from "node:stream";
import { isSystemError } from "@kip/base";
import type { LogOptions } from "@kip/virtual-kubelet";

const { O_RDONLY, O_NOFOLLOW } = constants;
const blockBytes = 65_536;
const lineEnd = 0x0a;
const space = 0x20;
/** Minimum and maximum length of a line's time, bytes: from `2026-01-01T00:00:00Z` to nine digits and an offset. */
const shortestTime = 20;
const longestTime = 35;

/**
 * A saved log as `kubectl logs` shows it: the bytes that the container wrote, in lines that only end at 0x0A. A last line
 * without a line break stays without one. At most some blocks of 64 KiB are in memory.
 *
 * The file is closed when the stream closes, whether or not it was read to its end.
 *
 * @returns undefined if the file does not exist
 */
export async function readSavedLog(
  file: string,
  options: LogOptions,
): Promise<Readable | undefined> {
  let handle: FileHandle;
  try {
    handle = await open(file, O_RDONLY | O_NOFOLLOW);
  } catch (error) {
    if (isSystemError(error, "ENOENT")) return undefined;
    throw error;
  }
  const stream = Readable.from(limited(shownBlocks(handle, options), options.limitBytes), {
    objectMode: false,
  });
  // The generator of a stream without a reader never starts, so it cannot own the file.
  stream.once("close", () => void handle.close().catch(() => {}));
  return stream;
}

async function* limited(
  blocks: AsyncIterable<Buffer>,
  limitBytes = Number.POSITIVE_INFINITY,
): AsyncGenerator<Buffer> {
  let left = limitBytes;
  for await (const block of blocks) {
    if (block.length > 0) yield block.subarray(0, left);
    left -= block.length;
    if (left <= 0) return;
  }
}

async function* shownBlocks(handle: FileHandle, options: LogOptions): AsyncGenerator<Buffer> {
  const { size } = await handle.stat();
  let position =
    options.tailLines === undefined ? 0 : await findTail(handle, size, options.tailLines);
  const lines = new LineFilter(options);
  while (position < size) {
    const block = Buffer.allocUnsafe(Math.min(blockBytes, size - position));
    const { bytesRead } = await handle.read(block, 0, block.length, position);
    if (bytesRead === 0) break;
    position += bytesRead;
    yield lines.push(block.subarray(0, bytesRead));
  }
  yield lines.end();
}

/** Offset at which the last lines begin. Reads backwards, and each block only once. */
async function findTail(handle: FileHandle, size: number, lines: number): Promise<number> {
  if (lines <= 0) return size;
  let left = lines;
  // No line begins after the last line break.
  let end = size - 1;
  while (end > 0) {
    const start = Math.max(0, end - blockBytes);
    const block = Buffer.allocUnsafe(end - start);
    const { bytesRead } = await handle.read(block, 0, block.length, start);
    let at = block.subarray(0, bytesRead).lastIndexOf(lineEnd);
    while (at >= 0) {
      left -= 1;
      if (left === 0) return start + at + 1;
      at = at === 0 ? -1 : block.lastIndexOf(lineEnd, at - 1);
    }
    end = start;
  }
  return 0;
}

/** Strips the times from lines, and drops lines that are too old. Reads each byte once. */
class LineFilter {
  readonly #options: LogOptions;
  /** The beginning of a line, which may still be part of a time. */
  #beginning: Buffer = Buffer.alloc(0);
  #isMidLine = false;
  /** Whether the current line is shown. */
  #isShown = true;

  constructor(options: LogOptions) {
    this.#options = options;
  }

  /** The part of these bytes that is shown. */
  push(bytes: Buffer): Buffer {
    const all = this.#beginning.length === 0 ? bytes : Buffer.concat([this.#beginning, bytes]);
    return this.#filter(all, false);
  }

  /** The shown part of the rest. */
  end(): Buffer {
    return this.#filter(this.#beginning, true);
  }

  #filter(bytes: Buffer, isEnd: boolean): Buffer {
    const shown = Buffer.allocUnsafe(bytes.length);
    let length = 0;
    let position = 0;
    this.#beginning = Buffer.alloc(0);
    while (position < bytes.length) {
      let start = position;
      const next = bytes.indexOf(lineEnd, position);
      if (!this.#isMidLine) {
        if (next < 0 && !isEnd && bytes.length - position <= longestTime) {
          this.#beginning = Buffer.from(bytes.subarray(position));
          break;
        }
        start = this.#beginLine(bytes, position);
      }
      const after = next < 0 ? bytes.length : next + 1;
      if (this.#isShown) length += bytes.copy(shown, length, start, after);
      this.#isMidLine = next < 0;
      position = after;
    }
    return shown.subarray(0, length);
  }

  /** Offset of the text of the line that begins here. */
  #beginLine(bytes: Buffer, at: number): number {
    const after = endOfTime(bytes, at);
    const { sinceTimeMs, timestamps } = this.#options;
    this.#isShown =
      after === undefined ||
      sinceTimeMs === undefined ||
      !(Date.parse(bytes.toString("latin1", at, after)) < sinceTimeMs);
    return after === undefined || timestamps ? at : after + 1;
  }
}

/** The offset at which the line's time ends. Undefined if the line does not begin with a time. */
function endOfTime(bytes: Buffer, at: number): number | undefined {
  const end = bytes.subarray(at, at + longestTime + 1).indexOf(space);
  const isTime =
    end >= shortestTime &&
    bytes[at + 4] === 0x2d && // -
    bytes[at + 10] === 0x54 && // T
    bytes[at + 13] === 0x3a; // :
  return isTime ? at + end : undefined;
}

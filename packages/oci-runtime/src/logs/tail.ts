import type { FileHandle } from "node:fs/promises";
import { parseLogLine, type LogEntry } from "./log-line.ts";

const blockBytes = 65_536;
/** More than an entry's prefix of time, stream and tags. */
const headBytes = 256;

/**
 * Finds the offset in a CRI log at which the last `lines` lines start. Reads backwards, so that the cost does not depend on the
 * log's size, and keeps no lines, so that their lengths do not matter. A line in several parts counts once.
 *
 * @throws the signal's reason
 */
export async function findTail(
  handle: FileHandle,
  size: number,
  lines: number,
  signal?: AbortSignal,
): Promise<number> {
  if (lines <= 0) return size;
  let found = 0;
  let isFirstSeen = true;
  for await (const { end, entry } of entriesBackwards(handle, size, signal)) {
    // An `F` entry ends a line, so the entry after it starts a line. A log may end in the middle of a line.
    const endsLine = !entry.isPartial || isFirstSeen;
    isFirstSeen = false;
    if (endsLine && ++found > lines) return end;
  }
  return 0;
}

/** The entries of a log from last to first, without their content, each with the offset after its line end. */
async function* entriesBackwards(
  handle: FileHandle,
  size: number,
  signal: AbortSignal | undefined,
): AsyncGenerator<{ readonly end: number; readonly entry: LogEntry }> {
  // The beginning of the last block, which belongs to a line that starts in an earlier block.
  let head: Buffer = Buffer.alloc(0);
  let position = size;
  // Offset after the line end of the current line.
  let end: number | undefined;
  while (position > 0) {
    signal?.throwIfAborted();
    const length = Math.min(blockBytes, position);
    position -= length;
    const block = Buffer.allocUnsafe(length);
    const { bytesRead } = await handle.read(block, 0, length, position);
    const data = Buffer.concat([block.subarray(0, bytesRead), head]);
    for (let at = lastLineEnd(block, bytesRead); at >= 0; at = lastLineEnd(block, at)) {
      const entry = entryAt(data, at + 1, end, position);
      if (entry && end !== undefined) yield { end, entry };
      // Text after the file's last line end is not a complete line yet.
      end = position + at + 1;
    }
    head = data.subarray(0, headBytes);
  }
  const entry = entryAt(head, 0, end, 0);
  if (entry && end !== undefined) yield { end, entry };
}

/** Offset of the last line end in the first `length` bytes of a block. -1 if there is none. */
function lastLineEnd(block: Buffer, length: number): number {
  return length === 0 ? -1 : block.lastIndexOf(0x0a, length - 1);
}

function entryAt(
  data: Buffer,
  start: number,
  end: number | undefined,
  position: number,
): LogEntry | undefined {
  if (end === undefined) return undefined;
  const line = data.subarray(start, Math.min(start + headBytes, end - 1 - position));
  return line.length === 0 ? undefined : parseLogLine(line);
}

import type { FileHandle } from "node:fs/promises";
import { parseLogLine, type LogEntry } from "./log-line.ts";

const blockBytes = 65_536;
/** More than an entry has before its content: time, stream, tags. */
const headBytes = 256;

/**
 * Offset in a CRI log at which its last `lines` lines begin. Reads backwards, so that the tail of
 * a large log costs no more than that of a small one, and keeps no line: their lengths do not matter.
 * A line in several parts counts once.
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
    // An `F` ends a line, so the entry after it begins one. A log may end in the middle of a line.
    const endsLine = !entry.isPartial || isFirstSeen;
    isFirstSeen = false;
    if (endsLine && ++found > lines) return end;
  }
  return 0;
}

/** The entries of a log from its last to its first, without their content, with the offsets behind their line ends. */
async function* entriesBackwards(
  handle: FileHandle,
  size: number,
  signal: AbortSignal | undefined,
): AsyncGenerator<{ readonly end: number; readonly entry: LogEntry }> {
  // The beginning of what was read last: of a line whose own beginning is still to come.
  let head: Buffer = Buffer.alloc(0);
  let position = size;
  // Offset behind the line end of the line that is being looked for.
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
      // What follows the last line end of the file is not a whole line yet.
      end = position + at + 1;
    }
    head = data.subarray(0, headBytes);
  }
  const entry = entryAt(head, 0, end, 0);
  if (entry && end !== undefined) yield { end, entry };
}

/** Offset of the last line end in the first bytes of a block; -1 if there is none. */
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

import type { FileHandle } from "node:fs/promises";
import { parseLogLine } from "./log-line.ts";

const blockBytes = 65_536;

/**
 * Offset in a CRI log at which its last `lines` lines begin. Reads backwards, so that the tail of
 * a large log costs no more than that of a small one. A line in several parts counts once.
 */
export async function findTail(handle: FileHandle, size: number, lines: number): Promise<number> {
  if (lines <= 0) return size;
  let found = 0;
  let isFirstSeen = true;
  for await (const { offset, line } of linesBackwards(handle, size)) {
    const entry = parseLogLine(line);
    if (!entry) continue;
    // An `F` ends a line, so the entry after it begins one. A log may end in the middle of a line.
    const endsLine = !entry.isPartial || isFirstSeen;
    isFirstSeen = false;
    if (endsLine && ++found > lines) return offset + line.length + 1;
  }
  return 0;
}

/** The lines of a file from its last to its first, with the offsets at which they begin. */
async function* linesBackwards(
  handle: FileHandle,
  size: number,
): AsyncGenerator<{ readonly offset: number; readonly line: Buffer }> {
  let pending: Buffer = Buffer.alloc(0);
  let position = size;
  while (position > 0) {
    const length = Math.min(blockBytes, position);
    position -= length;
    const block = Buffer.allocUnsafe(length);
    const { bytesRead } = await handle.read(block, 0, length, position);
    let data = Buffer.concat([block.subarray(0, bytesRead), pending]);
    for (let end = data.lastIndexOf(0x0a); end >= 0; end = data.lastIndexOf(0x0a)) {
      const line = data.subarray(end + 1);
      // The piece after the last line end of the file is no line yet.
      if (line.length > 0) yield { offset: position + end + 1, line };
      data = data.subarray(0, end);
    }
    pending = data;
  }
  if (pending.length > 0) yield { offset: 0, line: pending };
}

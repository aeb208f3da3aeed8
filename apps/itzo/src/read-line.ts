import { readSync } from "node:fs";

/**
 * Reads a line, without its end, and blocks the whole program meanwhile. Nothing must follow the line.
 *
 * @param descriptor a file that blocks when there is nothing to read
 * @throws {RangeError} when the line is longer than `maxBytes`, or the other side is gone
 */
export function readLineSync(descriptor: number, maxBytes: number): string {
  const buffer = Buffer.alloc(maxBytes + 1);
  let length = 0;
  for (;;) {
    const count = readSync(descriptor, buffer, length, buffer.length - length, null);
    if (count === 0) throw new RangeError("the other side has gone, or said too much");
    length += count;
    if (buffer[length - 1] === 0x0a) return buffer.toString("utf8", 0, length - 1);
  }
}

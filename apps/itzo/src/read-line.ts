import { readSync } from "node:fs";

/**
 * Reads a line without its line break, and blocks the whole program. Nothing may follow the line.
 *
 * @param descriptor a file that blocks while there is nothing to read
 * @throws {RangeError} if the line is longer than `maxBytes`, or the other side has closed the connection
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

import { copyFileSync, truncateSync } from "node:fs";

/**
 * Writes log lines, and limits the size of the file to which their reader appends them. After every `maxBytes` bytes the file
 * is copied to `<file>.1` and emptied. The reader has the file open for appending, so it continues at the new end.
 *
 * @returns a function that writes one line, which is passed without its line break
 */
export function boundedLog(options: {
  readonly write: (text: string) => void;
  readonly file: string;
  readonly maxBytes: number;
}): (line: string) => void {
  let writtenBytes = 0;
  return (line) => {
    const text = `${line}\n`;
    options.write(text);
    writtenBytes += Buffer.byteLength(text);
    if (writtenBytes < options.maxBytes) return;
    writtenBytes = 0;
    rotate(options.file);
  };
}

/** The agent also works without the copy or with a longer file, so it must not end because of its log. */
function rotate(file: string): void {
  try {
    copyFileSync(file, `${file}.1`);
  } catch {
    // If the disk is full, emptying the file below makes room.
  }
  try {
    truncateSync(file);
  } catch {
    // The file does not exist, or cannot be written.
  }
}

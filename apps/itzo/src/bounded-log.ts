import { copyFileSync, truncateSync } from "node:fs";

/**
 * Writes log lines, and keeps the file small to which their reader appends them: after every `maxBytes` bytes the file is
 * copied to `<file>.1` and emptied. Its writer keeps it open for appending, so it goes on at the new end.
 *
 * @returns writes one line, which is given without its end
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

/** Without the copy, or even with a longer file, the agent works; it must not end for its log. */
function rotate(file: string): void {
  try {
    copyFileSync(file, `${file}.1`);
  } catch {
    // A disk that is full has room again after the next line.
  }
  try {
    truncateSync(file);
  } catch {
    // There is none, or it cannot be written.
  }
}

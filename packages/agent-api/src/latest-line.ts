import { GrowingBuffer } from "@kip/base";
import { AgentError } from "./errors.ts";

/** The longest line of any report, bytes, without its end: a thousand containers that have ended twice have half of it. */
export const maxLineBytes = 2 * 1024 * 1024;
/** What a report may have for the pod and its events, and for each container; bytes. */
const podBytes = 512 * 1024;
const containerBytes = 8 * 1024;

/**
 * The longest line of a report, bytes, without its end: an agent shortens what is longer. Kip keeps as much in memory for each cell
 * that begins a line and does not end it.
 *
 * @param containers of the pod, of all kinds; from 192 on the limit is that of any report, 2 MiB
 */
export function longestReport(containers: number): number {
  return Math.min(maxLineBytes, podBytes + containers * containerBytes);
}

const lineEnd = 0x0a;

/**
 * Finds the last complete line in what has come so far. Lines before it are dropped unread: each
 * line replaces the one before, so a sender in a hurry costs no decoding. Each byte is looked at once.
 */
export class LatestLine {
  readonly #rest = new GrowingBuffer();
  readonly #maxBytes: () => number;

  /** @param maxBytes gives the length of the longest line at present, bytes without its end. @default maxLineBytes (2 MiB) */
  constructor(maxBytes = (): number => maxLineBytes) {
    this.#maxBytes = maxBytes;
  }

  /**
   * The newest complete, non-empty line that ends in these bytes; undefined if there is none.
   *
   * @throws {AgentError} code `AGENT_ANSWER_INVALID` when a line is longer than the longest
   */
  push(chunk: Buffer): string | undefined {
    const end = chunk.lastIndexOf(lineEnd);
    if (end < 0) {
      this.#keep(chunk);
      return undefined;
    }
    const lines = withoutTrailingSpace(chunk.subarray(0, end));
    const start = lines.lastIndexOf(lineEnd) + 1;
    const last = lines.subarray(start);
    if (start === 0) this.#keep(last);
    const newest = start === 0 ? this.#rest.take() : last;
    this.#rest.take();
    if (newest.length > this.#maxBytes()) throw tooLong(this.#maxBytes());
    const line = withoutTrailingSpace(newest).toString();
    this.#keep(chunk.subarray(end + 1));
    return line === "" ? undefined : line;
  }

  #keep(bytes: Buffer): void {
    if (this.#rest.length + bytes.length > this.#maxBytes()) throw tooLong(this.#maxBytes());
    if (bytes.length > 0) this.#rest.append(bytes);
  }
}

/** Without spaces, tabs and line ends at its end. */
function withoutTrailingSpace(bytes: Buffer): Buffer {
  let length = bytes.length;
  while (length > 0 && isSpace(bytes[length - 1] ?? 0)) length -= 1;
  return bytes.subarray(0, length);
}

function isSpace(byte: number): boolean {
  return byte === 0x20 || (byte >= 0x09 && byte <= 0x0d);
}

function tooLong(maxBytes: number): AgentError {
  return new AgentError(
    "AGENT_ANSWER_INVALID",
    `Cannot read the status of a cell: a line has more than ${maxBytes} bytes`,
  );
}

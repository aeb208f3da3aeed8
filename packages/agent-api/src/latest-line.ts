import { GrowingBuffer } from "@kip/base";
import { AgentError } from "./errors.ts";

/** Maximum length of any report line, bytes, without its end. A thousand containers that have ended twice need half of it. */
export const maxLineBytes = 2 * 1024 * 1024;
/** Maximum size of a report for the pod and its events, and for each container, bytes. */
const podBytes = 512 * 1024;
const containerBytes = 8 * 1024;

/**
 * Maximum length of a report line for a pod, bytes, without its end. An agent shortens longer reports. Kip may store this much
 * for each cell that begins a line and does not end it.
 *
 * @param containers number of the pod's containers, of all kinds. From 192 on, the overall limit of 2 MiB applies
 */
export function longestReport(containers: number): number {
  return Math.min(maxLineBytes, podBytes + containers * containerBytes);
}

const lineEnd = 0x0a;

/**
 * Finds the last complete line of the input so far. Earlier lines are dropped without decoding them, because each line replaces
 * the one before. So a fast sender costs no decoding. Each byte is only scanned once.
 */
export class LatestLine {
  readonly #rest = new GrowingBuffer();
  readonly #maxBytes: () => number;

  /** @param maxBytes returns the current maximum line length, bytes without its end. @default maxLineBytes (2 MiB) */
  constructor(maxBytes = (): number => maxLineBytes) {
    this.#maxBytes = maxBytes;
  }

  /**
   * The newest complete, non-empty line that ends in these bytes. Undefined if there is none.
   *
   * @throws {AgentError} code `AGENT_ANSWER_INVALID` if a line is too long
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

/** Removes spaces, tabs and line breaks at the end. */
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

import { KipError } from "@kip/base";

/** The longest line {@link LatestLine} takes, bytes. */
export const maxLineBytes = 1024 * 1024;

/**
 * Finds the last complete line in what has come so far. Lines before it are dropped unread: each
 * line replaces the one before, so a sender in a hurry costs no decoding.
 */
export class LatestLine {
  /** The line that has not ended yet. Its parts are joined once: a sender may send it letter by letter. */
  #rest: string[] = [];
  #restLength = 0;

  /**
   * The newest complete, non-empty line that ends in this text; undefined if there is none.
   *
   * @throws {KipError} code `AGENT_ANSWER_INVALID` when a line is longer than {@link maxLineBytes}
   */
  push(text: string): string | undefined {
    const end = text.lastIndexOf("\n");
    const lines = end === -1 ? "" : (this.#rest.join("") + text.slice(0, end)).trimEnd();
    if (end !== -1) {
      this.#rest = [];
      this.#restLength = 0;
    }
    this.#rest.push(text.slice(end + 1));
    this.#restLength += text.length - end - 1;
    if (this.#restLength > maxLineBytes) throw tooLong();
    const newest = lines.slice(lines.lastIndexOf("\n") + 1);
    if (newest.length > maxLineBytes) throw tooLong();
    return newest === "" ? undefined : newest;
  }
}

function tooLong(): KipError {
  return new KipError(
    "AGENT_ANSWER_INVALID",
    `Cannot read the status of a cell: a line has more than ${maxLineBytes} bytes`,
  );
}

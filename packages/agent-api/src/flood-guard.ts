/** Bytes per second that a peer may send without any content, as window updates, pings and settings. */
const emptyBytesPerSecond = 512 * 1024;

/**
 * Bytes that may transport one byte of content. A program that writes single bytes has each in its own frame and TLS record.
 */
const bytesPerContentByte = 50;

/** Bytes that may transport one byte of a response that was broken off. */
const bytesPerLateByte = 2;
/** The share of the late bytes that remains expected from one check to the next. */
const lateShare = 0.9;

/**
 * Detects a peer that sends frames that were not requested. HTTP/2 frames below the responses cost CPU time, and nothing in
 * HTTP/2 slows their sender. For content, the readers do that.
 */
export class FloodGuard {
  readonly #bytesRead: () => number;
  #content = 0;
  /** Bytes of broken-off responses that may still arrive. */
  #late = 0;
  #readBefore: number;
  #checkedAt: number;

  /** @param bytesRead all bytes read from the connection so far */
  constructor(bytesRead: () => number, now: number) {
    this.#bytesRead = bytesRead;
    this.#checkedAt = now;
    this.#readBefore = bytesRead();
  }

  /** Records that content of a response has arrived, bytes. */
  received(bytes: number): void {
    this.#content += bytes;
  }

  /**
   * Records that the reading of a response was broken off. The peer may have sent content of this length that has not arrived
   * yet, bytes. Nothing will report it as received.
   */
  brokenOff(bytes: number): void {
    this.#late += bytes * bytesPerLateByte;
  }

  /** Whether the peer has sent too much since the last call. @param now monotonic time, milliseconds */
  isFlooded(now: number): boolean {
    const read = this.#bytesRead();
    const allowed =
      this.#readBefore +
      this.#content * bytesPerContentByte +
      ((now - this.#checkedAt) * emptyBytesPerSecond) / 1000;
    const excess = Math.max(0, read - allowed);
    const isFlooded = excess > this.#late;
    this.#late = Math.max(0, this.#late - excess) * lateShare;
    this.#readBefore = read;
    this.#content = 0;
    this.#checkedAt = now;
    return isFlooded;
  }
}

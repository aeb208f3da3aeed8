/** Bytes a second that a peer may send without any content: window updates, pings, settings. */
const emptyBytesPerSecond = 512 * 1024;

/** Bytes that one byte of content may come in: a program that writes single bytes has each in a frame and TLS record. */
const bytesPerContentByte = 50;

/**
 * Notices a peer that sends frames that were not asked for: HTTP/2 frames beneath the answers cost processor time, and
 * nothing in HTTP/2 slows their sender. Content is slowed by those who read it.
 */
export class FloodGuard {
  readonly #bytesRead: () => number;
  #content = 0;
  #readBefore: number;
  #checkedAt: number;

  /** @param bytesRead all bytes read from the connection so far */
  constructor(bytesRead: () => number, now: number) {
    this.#bytesRead = bytesRead;
    this.#checkedAt = now;
    this.#readBefore = bytesRead();
  }

  /** Content of an answer has come, bytes. */
  received(bytes: number): void {
    this.#content += bytes;
  }

  /** Whether the peer has sent too much since the last call. @param now monotonic milliseconds */
  isFlooded(now: number): boolean {
    const read = this.#bytesRead();
    const allowed =
      this.#readBefore +
      this.#content * bytesPerContentByte +
      ((now - this.#checkedAt) * emptyBytesPerSecond) / 1000;
    this.#readBefore = read;
    this.#content = 0;
    this.#checkedAt = now;
    return read > allowed;
  }
}

/**
 * Bytes that arrive in pieces, in one buffer that doubles. However small the pieces are, each byte is copied a few
 * times at most, and no piece keeps the larger buffer alive that it is a part of.
 */
export class GrowingBuffer {
  #buffer: Buffer = Buffer.alloc(0);
  #length = 0;

  /** Bytes so far. */
  get length(): number {
    return this.#length;
  }

  /** All bytes so far. Valid until the next {@link append}. */
  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  append(piece: Uint8Array): void {
    const length = this.#length + piece.length;
    if (length > this.#buffer.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(length, 2 * this.#buffer.length));
      larger.set(this.bytes);
      this.#buffer = larger;
    }
    this.#buffer.set(piece, this.#length);
    this.#length = length;
  }

  /** All bytes so far, for the caller to keep. The buffer is empty afterwards. */
  take(): Buffer {
    const all = this.bytes;
    this.#buffer = Buffer.alloc(0);
    this.#length = 0;
    return all;
  }
}

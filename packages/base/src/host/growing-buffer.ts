/**
 * Collects bytes in one buffer, which doubles when it is full. However small the pieces are, each byte is copied only a few
 * times. The buffer does not keep the memory alive that a piece is a slice of.
 */
export class GrowingBuffer {
  #buffer: Buffer = Buffer.alloc(0);
  #length = 0;

  /** Number of bytes so far. */
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

  /** All bytes so far, owned by the caller. The buffer is empty afterwards. */
  take(): Buffer {
    const all = this.bytes;
    this.#buffer = Buffer.alloc(0);
    this.#length = 0;
    return all;
  }
}

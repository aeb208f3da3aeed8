/**
 * Joins chunks into one growing buffer as they arrive. A list would cost hundreds of bytes per chunk, and a peer may send one
 * byte at a time.
 */
export class ByteCollector {
  #buffer = Buffer.alloc(0);
  #length = 0;

  /** Number of bytes so far. */
  get length(): number {
    return this.#length;
  }

  /** Copies the next bytes. */
  add(chunk: Uint8Array): void {
    const length = this.#length + chunk.length;
    if (length > this.#buffer.length) {
      const larger = Buffer.alloc(Math.max(length, 2 * this.#buffer.length, 4096));
      this.#buffer.copy(larger, 0, 0, this.#length);
      this.#buffer = larger;
    }
    this.#buffer.set(chunk, this.#length);
    this.#length = length;
  }

  /** Returns all bytes. Call it after the last one was added. */
  bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }
}

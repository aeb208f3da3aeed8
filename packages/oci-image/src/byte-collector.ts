/**
 * Joins chunks as they come, in one buffer that grows. A list of them costs hundreds of bytes for each, and a peer may
 * send one byte at a time.
 */
export class ByteCollector {
  #buffer = Buffer.alloc(0);
  #length = 0;

  /** Bytes so far. */
  get length(): number {
    return this.#length;
  }

  /** Takes a copy of the next bytes. */
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

  /** All bytes; to be called when there are no more. */
  bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }
}

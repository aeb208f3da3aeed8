import { closeSync, fstatSync, openSync, renameSync, writeSync } from "node:fs";

/**
 * A log file of limited size: when it is full it becomes `<file>.1`, in place of an older one, and a new one begins. For
 * programs that strangers can make write.
 */
export class LimitedLog implements Disposable {
  readonly #file: string;
  readonly #limitBytes: number;
  #descriptor: number;
  #sizeBytes: number;

  /** @param limitBytes size of one file; two may be there */
  constructor(file: string, limitBytes: number) {
    this.#file = file;
    this.#limitBytes = limitBytes;
    this.#descriptor = openSync(file, "a", 0o600);
    this.#sizeBytes = fstatSync(this.#descriptor).size;
  }

  /** Appends. A disk without space loses the text, as nothing can be done with it. */
  write(text: Uint8Array): void {
    try {
      if (this.#sizeBytes > 0 && this.#sizeBytes + text.length > this.#limitBytes) this.#rotate();
      this.#sizeBytes += writeSync(this.#descriptor, text);
    } catch {
      // No space, for example.
    }
  }

  [Symbol.dispose](): void {
    closeSync(this.#descriptor);
  }

  #rotate(): void {
    renameSync(this.#file, `${this.#file}.1`);
    const next = openSync(this.#file, "a", 0o600);
    closeSync(this.#descriptor);
    this.#descriptor = next;
    this.#sizeBytes = 0;
  }
}

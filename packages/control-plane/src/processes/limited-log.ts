import { closeSync, fstatSync, openSync, renameSync, writeSync } from "node:fs";

/**
 * A log file of limited size: when it is full it becomes `<file>.1`, in place of an older one, and a new one begins. For
 * programs that strangers can make write.
 *
 * A disk without space, or a folder that is gone, loses text; nothing fails because of a log.
 */
export class LimitedLog implements Disposable {
  readonly #file: string;
  readonly #limitBytes: number;
  #descriptor: number | undefined;
  #sizeBytes = 0;

  /** @param limitBytes size of one file; two may be there */
  constructor(file: string, limitBytes: number) {
    this.#file = file;
    this.#limitBytes = limitBytes;
  }

  /** Appends. */
  write(text: Uint8Array): void {
    try {
      this.#descriptor ??= this.#open();
      if (this.#sizeBytes > 0 && this.#sizeBytes + text.length > this.#limitBytes) {
        renameSync(this.#file, `${this.#file}.1`);
        this[Symbol.dispose]();
        this.#descriptor = this.#open();
      }
      this.#sizeBytes += writeSync(this.#descriptor, text);
    } catch {
      // See above.
    }
  }

  [Symbol.dispose](): void {
    if (this.#descriptor !== undefined) closeSync(this.#descriptor);
    this.#descriptor = undefined;
  }

  #open(): number {
    const descriptor = openSync(this.#file, "a", 0o600);
    this.#sizeBytes = fstatSync(descriptor).size;
    return descriptor;
  }
}

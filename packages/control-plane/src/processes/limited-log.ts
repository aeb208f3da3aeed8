import { closeSync, fstatSync, openSync, renameSync, writeSync } from "node:fs";

/**
 * A log file of limited size. When it is full, it is renamed to `<file>.1`, replacing an older one, and a new file starts. For
 * programs whose clients can cause output.
 *
 * If the disk is full or the folder is gone, text is lost. A problem with a log never causes a failure.
 */
export class LimitedLog implements Disposable {
  readonly #file: string;
  readonly #limitBytes: number;
  #descriptor: number | undefined;
  #sizeBytes = 0;

  /** @param limitBytes size of one file. There may be two of them */
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
      // Losing text is accepted, see above.
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

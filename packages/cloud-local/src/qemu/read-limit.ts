import type { Socket } from "node:net";

/** How much may be read without a pause, UTF-16 code units: many times QEMU's usual output per second. */
const burstLength = 1_048_576;
/** Length of a pause, milliseconds. A guest that has broken into QEMU must not keep this process busy. */
const pauseMs = 500;

/** Pauses a socket that delivers more than {@link burstLength} within {@link pauseMs}. */
export class ReadLimit implements Disposable {
  readonly #socket: Socket;
  #length = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** Counts received text. */
  count(length: number): void {
    this.#length += length;
    if (this.#length > burstLength) this.#socket.pause();
    // A clock's timer would keep the process alive, unlike the socket.
    this.#timer ??= setTimeout(() => this.#startAgain(), pauseMs).unref();
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }

  #startAgain(): void {
    this.#timer = undefined;
    this.#length = 0;
    this.#socket.resume();
  }
}

import type { Socket } from "node:net";

/** What is read at once, UTF-16 code units: many times what QEMU says in a second. Above it, reading pauses. */
const burstLength = 1_048_576;
/** How long reading pauses, milliseconds: a guest that has broken into QEMU must not keep this process busy. */
const pauseMs = 500;

/** Pauses a socket that sends more than {@link burstLength} within {@link pauseMs}. */
export class ReadLimit implements Disposable {
  readonly #socket: Socket;
  #length = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** Counts what the socket has sent. */
  count(length: number): void {
    this.#length += length;
    if (this.#length > burstLength) this.#socket.pause();
    // A clock's timer would keep the process running, which the socket itself may not do.
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

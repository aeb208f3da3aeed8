import type { Socket } from "node:net";
import { pause, systemClock } from "@kip/base";

/** What is read at once, UTF-16 code units: many times what QEMU says in a second. Above it, reading pauses. */
const burstLength = 1_048_576;
/** How long reading pauses, milliseconds: a guest that has broken into QEMU must not keep this process busy. */
const pauseMs = 500;

/** Pauses a socket that sends more than {@link burstLength} within {@link pauseMs}. */
export class ReadLimit implements Disposable {
  readonly #socket: Socket;
  readonly #closed = new AbortController();
  #length = 0;
  #isCounting = false;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** Counts what the socket has sent. */
  count(length: number): void {
    this.#length += length;
    if (this.#length > burstLength) this.#socket.pause();
    if (!this.#isCounting) void this.#startAgain();
  }

  [Symbol.dispose](): void {
    this.#closed.abort();
  }

  async #startAgain(): Promise<void> {
    this.#isCounting = true;
    const isOver = await pause(pauseMs, systemClock, this.#closed.signal);
    this.#isCounting = false;
    this.#length = 0;
    if (isOver) this.#socket.resume();
  }
}

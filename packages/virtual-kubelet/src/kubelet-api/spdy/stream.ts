import { Duplex } from "node:stream";
import { VirtualKubeletError } from "../../errors.ts";
import type { RemoteStream } from "../transport/remote-streams.ts";
import { rstStatus, type Frame } from "./frames.ts";
import type { SpdyHeaders } from "./headers.ts";

/** Longest data frame sent: small enough that streams of one connection share it fairly. */
const maxDataBytes = 32 * 1024;

/** What a stream needs of its connection. */
export interface StreamCarrier {
  /** Free bytes of the peer's window, given what was sent on this stream so far. */
  windowLeft(sentBytes: number, grantedBytes: number): number;
  /** Whether the socket takes more now. @throws if the connection is gone */
  isWritable(): boolean;
  /** Resolves when {@link StreamCarrier.isWritable} is worth asking again. */
  drained(): Promise<void>;
  sendData(streamId: number, data: Buffer, fin: boolean): void;
  send(frame: Exclude<Frame, { type: "data" | "unknown" }>): void;
  sendReply(streamId: number): void;
}

/** One SPDY stream. Created by the connection when a SYN_STREAM frame arrives. */
export class SpdyStream extends Duplex implements RemoteStream {
  readonly id: number;
  readonly headers: SpdyHeaders;
  readonly #carrier: StreamCarrier;
  readonly #windowBytes: number;
  #answered = false;
  #remoteEnded = false;
  #localEnded = false;
  #reset = false;
  #isDiscarding = false;
  #room: (() => void) | undefined;
  #taken = 0;
  #sent = 0;
  #granted = 0;
  #windowOpened: (() => void) | undefined;

  constructor(id: number, headers: SpdyHeaders, carrier: StreamCarrier, bufferBytes: number) {
    super({ readableHighWaterMark: bufferBytes, writableHighWaterMark: maxDataBytes });
    this.id = id;
    this.headers = headers;
    this.#carrier = carrier;
    this.#windowBytes = bufferBytes;
    // Readers and writers see a reset by the client; errors need no listener.
    this.on("error", () => {});
  }

  get duplex(): Duplex {
    return this;
  }

  accept(): void {
    if (this.#answered || this.destroyed) return;
    this.#answered = true;
    this.#carrier.sendReply(this.id);
  }

  reject(): void {
    if (this.destroyed) return;
    this.#carrier.send({
      type: "rstStream",
      streamId: this.id,
      status: rstStatus.refusedStream,
    });
    this.#reset = true;
    this.destroy();
  }

  /** Bytes from the client. Gives a promise if the stream is full: it resolves when there is room. */
  deliver(data: Buffer, fin: boolean): Promise<void> | undefined {
    if (this.destroyed) return undefined;
    if (this.#remoteEnded) {
      this.#reset = true;
      const status = rstStatus.streamAlreadyClosed;
      this.#carrier.send({ type: "rstStream", streamId: this.id, status });
      this.destroy(streamReset("the client sent data after its end"));
      return undefined;
    }
    const isFull = data.length > 0 && !this.#isDiscarding && !this.push(data);
    if (fin) {
      this.#remoteEnded = true;
      this.push(null);
      return undefined;
    }
    if (isFull) return this.#untilRoom().then(() => this.#credit(data.length));
    this.#credit(data.length);
    return undefined;
  }

  /** Ends the stream from this side; what the client still sends is dropped. */
  finish(): void {
    this.#isDiscarding = true;
    this.#room?.();
    this.resume();
    this.end();
  }

  /** The client reset the stream. */
  resetByPeer(status: number): void {
    this.#reset = true;
    this.destroy(streamReset(`the client reset it with status ${status}`));
  }

  /** The client lets us send more. */
  windowUpdate(delta: number): void {
    this.#granted += delta;
    this.#windowOpened?.();
  }

  /** The connection is gone: nothing more can be sent. */
  connectionLost(): void {
    this.#reset = true;
    // A stream whose two ends were seen is complete, even if its last bytes are not read yet.
    if (this.#remoteEnded && this.#localEnded) return;
    this.destroy(streamReset("the connection is gone"));
  }

  override _read(): void {
    this.#room?.();
  }

  override _write(
    chunk: Buffer,
    _encoding: BufferEncoding,
    callback: (error?: Error | null) => void,
  ): void {
    this.#sendAll(chunk).then(() => callback(), callback);
  }

  override _final(callback: (error?: Error | null) => void): void {
    this.#localEnded = true;
    if (!this.#reset) this.#carrier.sendData(this.id, Buffer.alloc(0), true);
    callback();
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    if (!this.#reset && !(this.#remoteEnded && this.#localEnded)) {
      this.#carrier.send({ type: "rstStream", streamId: this.id, status: rstStatus.cancel });
    }
    this.#reset = true;
    this.#room?.();
    this.#windowOpened?.();
    callback(error);
  }

  async #sendAll(chunk: Buffer): Promise<void> {
    let offset = 0;
    while (offset < chunk.length) {
      // Asked again after each wait: other streams of the connection were waiting, too.
      if (!this.#carrier.isWritable()) {
        await this.#carrier.drained();
        continue;
      }
      const window = this.#carrier.windowLeft(this.#sent, this.#granted);
      if (this.destroyed) throw streamReset("it is closed");
      if (window <= 0) {
        await new Promise<void>((resolve) => {
          this.#windowOpened = resolve;
        });
        continue;
      }
      const piece = chunk.subarray(offset, offset + Math.min(maxDataBytes, window));
      this.#carrier.sendData(this.id, piece, false);
      offset += piece.length;
      this.#sent += piece.length;
    }
  }

  async #untilRoom(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#room = resolve;
    });
    this.#room = undefined;
  }

  /** Gives the client back what the reader took, half a window at a time. */
  #credit(length: number): void {
    this.#taken += length;
    if (this.#taken < this.#windowBytes / 2 || this.destroyed) return;
    this.#carrier.send({ type: "windowUpdate", streamId: this.id, delta: this.#taken });
    this.#taken = 0;
  }
}

function streamReset(reason: string): VirtualKubeletError {
  return new VirtualKubeletError("VK_STREAM_RESET", `Cannot use the stream: ${reason}`);
}

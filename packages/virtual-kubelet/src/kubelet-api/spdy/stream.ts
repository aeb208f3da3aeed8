import { Duplex } from "node:stream";
import { VirtualKubeletError } from "../../errors.ts";
import type { RemoteStream } from "../transport/remote-streams.ts";
import { rstStatus, type Frame } from "./frames.ts";
import type { SpdyHeaders } from "./headers.ts";

/** Maximum size of a sent data frame, bytes. Small frames let the streams of a connection share it fairly. */
const maxDataBytes = 32 * 1024;

/** The parts of the connection that a stream needs. */
export interface StreamCarrier {
  /** Free bytes of the peer's window, given how much this stream has sent so far. */
  windowLeft(sentBytes: number, grantedBytes: number): number;
  /** Whether the socket accepts more data now. @throws if the connection is gone */
  isWritable(): boolean;
  /** Resolves when {@link StreamCarrier.isWritable} may have changed. */
  drained(): Promise<void>;
  sendData(streamId: number, data: Buffer, fin: boolean): void;
  send(frame: Exclude<Frame, { type: "data" | "unknown" }>): void;
  sendReply(streamId: number): void;
}

/** A SPDY stream. The connection creates it for a SYN_STREAM frame. */
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
    // Readers and writers get an error when the client resets the stream, so callers need no listener for errors.
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

  /** Adds bytes from the client. If the stream is full, returns a promise that resolves when there is room. */
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

  /** Ends the stream from this side. Drops anything that the client still sends. */
  finish(): void {
    this.#isDiscarding = true;
    this.#room?.();
    this.resume();
    this.end();
  }

  /** Call this when the client has reset the stream. */
  resetByPeer(status: number): void {
    this.#reset = true;
    this.destroy(streamReset(`the client reset it with status ${status}`));
  }

  /** Call this when the client allows more data. */
  windowUpdate(delta: number): void {
    this.#granted += delta;
    this.#windowOpened?.();
  }

  /** Call this when the connection is gone and nothing more can be sent. */
  connectionLost(): void {
    this.#reset = true;
    // If both ends were seen, the stream is complete, even if its last bytes are not read yet.
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
      // Checked again after each wait, because other streams of the connection were waiting, too.
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

  /** Grants the client window for the data that the reader took, half a window at a time. */
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

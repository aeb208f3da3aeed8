import { Duplex } from "node:stream";
import { VirtualKubeletError } from "../../errors.ts";
import type { RemoteStream } from "../transport/remote-streams.ts";

/** Longest message sent: small enough that the channels of one connection share it fairly. */
const maxMessageBytes = 32 * 1024;

/** Which way the bytes of a channel go, seen from the server. */
export type ChannelDirection = "read" | "write" | "both";

/** What a client's subprotocol says of a channel. */
export interface ChannelDefinition {
  /** Number in the first byte of each message. */
  readonly channel: number;
  readonly direction: ChannelDirection;
  /** What the stream is for, in the words of the SPDY headers. */
  readonly headers: ReadonlyMap<string, string>;
}

/** What a channel needs of its connection. */
export interface ChannelCarrier {
  /** Sends a message; `taken` is called when there is room for more. */
  sendMessage(channel: number, data: Buffer, taken: (error?: Error | null) => void): void;
  /** The channel's reader has taken something. */
  hasRoom(stream: ChannelStream): void;
}

/** One channel of a WebSocket. All of them are open from the start. */
export class ChannelStream extends Duplex implements RemoteStream {
  readonly id: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly #carrier: ChannelCarrier;
  #remoteEnded = false;

  constructor(definition: ChannelDefinition, carrier: ChannelCarrier, bufferBytes: number) {
    super({ readableHighWaterMark: bufferBytes, writableHighWaterMark: maxMessageBytes });
    this.id = definition.channel;
    this.headers = definition.headers;
    this.#carrier = carrier;
    // Readers and writers see a lost connection; errors need no listener.
    this.on("error", () => {});
    if (definition.direction === "write") this.endOfInput();
    if (definition.direction === "read") this.end();
    // The protocol has no way to end one channel, so the client would wait without end.
    if (definition.direction === "both") this.once("finish", () => this.endOfInput());
  }

  get duplex(): Duplex {
    return this;
  }

  accept(): void {} // channels are there without being asked for

  reject(): void {
    this.destroy();
  }

  /** Bytes from the client; false if the channel is full. What comes after its end is dropped. */
  deliver(data: Buffer): boolean {
    if (this.destroyed || this.#remoteEnded || data.length === 0) return true;
    return this.push(data);
  }

  /** The client sends nothing more on this channel. */
  endOfInput(): void {
    if (this.#remoteEnded || this.destroyed) return;
    this.#remoteEnded = true;
    this.push(null);
  }

  /** The connection is gone: nothing more can be read or sent. */
  connectionLost(): void {
    // A channel that ended both ways is complete, even if its last bytes are not read yet.
    if (this.#remoteEnded && this.writableFinished) return;
    this.destroy(
      new VirtualKubeletError("VK_STREAM_RESET", "Cannot use the stream: the connection is gone"),
    );
  }

  override _read(): void {
    this.#carrier.hasRoom(this);
  }

  override _write(
    chunk: Buffer,
    _encoding: BufferEncoding,
    callback: (error?: Error | null) => void,
  ): void {
    const piece = chunk.subarray(0, maxMessageBytes);
    const rest = chunk.subarray(piece.length);
    this.#carrier.sendMessage(this.id, piece, (error) => {
      if (error || rest.length === 0) callback(error);
      else this._write(rest, "binary", callback);
    });
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.#carrier.hasRoom(this);
    callback(error);
  }
}

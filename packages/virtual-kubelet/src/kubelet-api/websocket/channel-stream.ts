import { Duplex } from "node:stream";
import { VirtualKubeletError } from "../../errors.ts";
import type { RemoteStream } from "../transport/remote-streams.ts";

/** Maximum size of a sent message, bytes. Small messages let the channels of a connection share it fairly. */
const maxMessageBytes = 32 * 1024;

/** Direction of a channel's bytes, as seen from the server. */
export type ChannelDirection = "read" | "write" | "both";

/** Definition of a channel in a subprotocol. */
export interface ChannelDefinition {
  /** Number in the first byte of each message. */
  readonly channel: number;
  readonly direction: ChannelDirection;
  /** Purpose of the stream, in the form of SPDY headers. */
  readonly headers: ReadonlyMap<string, string>;
}

/** The parts of the connection that a channel needs. */
export interface ChannelCarrier {
  /** Sends a message. Calls `taken` when there is room for more. */
  sendMessage(channel: number, data: Buffer, taken: (error?: Error | null) => void): void;
  /** Called when the channel's reader has taken some data. */
  hasRoom(stream: ChannelStream): void;
}

/** A channel of a WebSocket. All channels are open from the start. */
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
    // Readers and writers get an error when the connection is lost, so callers need no listener for errors.
    this.on("error", () => {});
    if (definition.direction === "write") this.endOfInput();
    if (definition.direction === "read") this.end();
    // The protocol cannot end a single channel, so the client would wait forever.
    if (definition.direction === "both") this.once("finish", () => this.endOfInput());
  }

  get duplex(): Duplex {
    return this;
  }

  accept(): void {} // channels are open from the start

  reject(): void {
    this.destroy();
  }

  /** Adds bytes from the client. False if the channel is full. Drops bytes after the channel's end. */
  deliver(data: Buffer): boolean {
    if (this.destroyed || this.#remoteEnded || data.length === 0) return true;
    return this.push(data);
  }

  /** Call this when the client sends nothing more on this channel. */
  endOfInput(): void {
    if (this.#remoteEnded || this.destroyed) return;
    this.#remoteEnded = true;
    this.push(null);
  }

  /** Call this when the connection is gone and nothing more can be read or sent. */
  connectionLost(): void {
    // If both directions have ended, the channel is complete, even if its last bytes are not read yet.
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

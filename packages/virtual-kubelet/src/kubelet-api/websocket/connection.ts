import { finished } from "node:stream";
import { AsyncQueue, pause, type Clock, type Logger } from "@kip/base";
import type { WebSocket } from "ws";
import { VirtualKubeletError } from "../../errors.ts";
import { watchIdle } from "../transport/idle-watch.ts";
import type { RemoteStream, RemoteStreams } from "../transport/remote-streams.ts";
import type { ConnectionMemory } from "../transport/stream-memory.ts";
import { ChannelStream, type ChannelCarrier, type ChannelDefinition } from "./channel-stream.ts";

/** Writers wait while more than this many bytes are unsent. */
const maxUnsentBytes = 256 * 1024;
/** The same for the number of messages. Each takes about 500 bytes of memory in addition to its content. */
const maxUnsent = 64;
/** First byte of the message with which a version 5 client ends a channel. */
const closeChannel = 255;
/** How long to wait for the client's close frame, milliseconds. */
const lingerMs = 10_000;
/** Status codes of close frames: RFC 6455, section 7.4.1. */
const closeStatus = { normal: 1000, protocolError: 1002, invalidData: 1007 } as const;

/** Message format of a subprotocol. */
export interface ChannelProtocol {
  /** Whether messages are text: the channel as a digit, then base64. Otherwise they are binary: the channel, then the data. */
  readonly isBase64: boolean;
  /** Whether the client can end one channel, with the bytes 255 and the channel. */
  readonly canEndChannels: boolean;
}

/** Options of {@link WebSocketConnection}. */
export interface WebSocketConnectionOptions {
  readonly protocol: ChannelProtocol;
  readonly channels: readonly ChannelDefinition[];
  /** Messages to send before everything else, in this order. */
  readonly greetings: readonly { readonly channel: number; readonly data: Buffer }[];
  /** Whether to close the connection as soon as this side has ended every channel. */
  readonly closesWhenDone: boolean;
  readonly streamBufferBytes: number;
  readonly memory: ConnectionMemory;
  /** Time without a frame from the client or data for it until the connection is closed, milliseconds. */
  readonly idleTimeoutMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * The server's side of a WebSocket with messages for numbered channels, as in Kubernetes' `*.channel.k8s.io` protocols.
 *
 * Invariants: messages are handled one after the other. A full channel pauses the whole connection, and so do all of its
 * channels when they reach their common limit. Messages for channels that do not exist are dropped, like in the kubelet.
 */
export class WebSocketConnection implements RemoteStreams, ChannelCarrier {
  readonly opened = new AsyncQueue<RemoteStream>();
  readonly #webSocket: WebSocket;
  readonly #options: WebSocketConnectionOptions;
  readonly #streams: ReadonlyMap<number, ChannelStream>;
  readonly #full = new Set<ChannelStream | WebSocketConnection>();
  readonly #gone = new AbortController();
  readonly #ended = new AbortController();
  #closing = false;
  /** Number of messages that are not sent yet. */
  #unsent = 0;
  #onSent: () => void = () => {};
  #lastTrafficAt: number;

  constructor(webSocket: WebSocket, options: WebSocketConnectionOptions) {
    this.#webSocket = webSocket;
    this.#options = options;
    this.#lastTrafficAt = options.clock.monotonic();
    for (const { channel, data } of options.greetings) this.sendMessage(channel, data, () => {});
    this.#streams = new Map(
      options.channels.map((definition) => [
        definition.channel,
        new ChannelStream(definition, this, options.streamBufferBytes),
      ]),
    );
    for (const stream of this.#streams.values()) options.memory.watch(stream);
    const sign = (): void => {
      this.#lastTrafficAt = options.clock.monotonic();
    };
    webSocket.on("message", (data) => {
      sign();
      this.#take(data as Buffer); // the library's default type
    });
    webSocket.on("ping", sign);
    webSocket.on("pong", sign);
    webSocket.on("error", (error) => {
      options.logger.debug("WebSocket of a client failed", { err: error.message }); // "close" follows
    });
    webSocket.once("close", () => this.#end());
    for (const stream of this.#streams.values()) this.opened.push(stream);
    if (options.closesWhenDone) this.#closeWhenDone();
    void this.#watch();
  }

  get gone(): AbortSignal {
    return this.#gone.signal;
  }

  async close(): Promise<void> {
    this.#closing = true;
    for (const stream of this.#streams.values()) stream.resume(); // its reader may be gone
    this.#webSocket.resume(); // to receive the client's close frame
    // There is no time limit, because a person may be reading the output page by page.
    while (this.#unsent > 0 && !this.#ended.signal.aborted) {
      await new Promise<void>((resolve) => {
        this.#onSent = resolve;
      });
    }
    this.#webSocket.close(closeStatus.normal);
    await pause(lingerMs, this.#options.clock, this.#ended.signal);
    this.#webSocket.terminate();
  }

  sendMessage(channel: number, data: Buffer, taken: (error?: Error | null) => void): void {
    if (this.#webSocket.readyState !== this.#webSocket.OPEN)
      return taken(
        new VirtualKubeletError("VK_STREAM_RESET", "Cannot send: the connection is gone"),
      );
    const { isBase64 } = this.#options.protocol;
    const message = isBase64
      ? `${channel}${data.toString("base64")}`
      : Buffer.concat([Buffer.of(channel), data]);
    let isWaiting = false;
    this.#lastTrafficAt = this.#options.clock.monotonic();
    this.#unsent++;
    this.#webSocket.send(message, { binary: !isBase64 }, (error) => {
      this.#unsent--;
      this.#onSent();
      if (isWaiting) taken(error);
    });
    if (this.#webSocket.bufferedAmount < maxUnsentBytes && this.#unsent < maxUnsent) taken();
    else isWaiting = true;
  }

  hasRoom(stream: ChannelStream | WebSocketConnection): void {
    if (this.#full.delete(stream) && this.#full.size === 0) this.#webSocket.resume();
  }

  #take(message: Buffer): void {
    const { isBase64, canEndChannels } = this.#options.protocol;
    if (message.length === 0) return;
    const first = message.readUInt8(0);
    if (canEndChannels && first === closeChannel) return this.#endChannel(message);
    const data = isBase64 ? decodeBase64(message.subarray(1)) : message.subarray(1);
    if (data === undefined) {
      this.#webSocket.close(closeStatus.invalidData, "a message is not base64");
      return;
    }
    const stream = this.#streams.get(isBase64 ? first - 0x30 : first);
    if (stream === undefined) return;
    if (!stream.deliver(data)) this.#holdUp(stream);
    if (this.#full.has(this)) return; // messages that were read before the pause still arrive one by one
    const room = this.#options.memory.room();
    if (!room) return;
    this.#holdUp(this);
    void room.then(() => this.hasRoom(this));
  }

  #holdUp(full: ChannelStream | WebSocketConnection): void {
    this.#full.add(full);
    this.#webSocket.pause();
  }

  #endChannel(message: Buffer): void {
    if (message.length !== 2) {
      this.#webSocket.close(closeStatus.protocolError, "one channel follows a channel's end");
      return;
    }
    this.#streams.get(message.readUInt8(1))?.endOfInput();
  }

  #closeWhenDone(): void {
    let open = this.#streams.size;
    for (const stream of this.#streams.values()) {
      // A channel that failed is also done.
      finished(stream, { readable: false }, () => {
        open--;
        if (open === 0) void this.close();
      });
    }
  }

  async #watch(): Promise<void> {
    await watchIdle({
      idleTimeoutMs: this.#options.idleTimeoutMs,
      clock: this.#options.clock,
      ended: this.#ended.signal,
      lastTrafficAt: () => this.#lastTrafficAt,
      probe: () => {
        if (this.#webSocket.isPaused) this.#webSocket.ping();
      },
      onIdle: () => this.#webSocket.terminate(),
    });
  }

  #end(): void {
    this.#ended.abort();
    this.#onSent();
    for (const stream of this.#streams.values()) stream.connectionLost();
    this.opened.end();
    if (!this.#closing)
      this.#gone.abort(
        new VirtualKubeletError("VK_STREAM_RESET", "Cannot go on: the client is gone"),
      );
  }
}

/** Decodes base64 text. Undefined if it is invalid. */
function decodeBase64(text: Buffer): Buffer | undefined {
  const letters = text.toString("latin1");
  return /^[A-Za-z0-9+/]*={0,2}$/.test(letters) ? Buffer.from(letters, "base64") : undefined;
}

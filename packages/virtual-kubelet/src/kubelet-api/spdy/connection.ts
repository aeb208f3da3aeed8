import type { Duplex } from "node:stream";
import { AsyncQueue, pause, type Clock, type Logger } from "@kip/base";
import { VirtualKubeletError } from "../../errors.ts";
import { watchIdle } from "../transport/idle-watch.ts";
import type { RemoteStream, RemoteStreams } from "../transport/remote-streams.ts";
import type { ConnectionMemory } from "../transport/stream-memory.ts";
import type { Turns } from "../transport/turns.ts";
import {
  dataHeader,
  encodeFrame,
  FrameParser,
  goAwayStatus,
  initialWindowSetting,
  rstStatus,
  type Frame,
} from "./frames.ts";
import { HeaderDecoder, HeaderEncoder, protocolError } from "./headers.ts";
import { SpdyStream, type StreamCarrier } from "./stream.ts";

/** Initial window of a stream without a SETTINGS frame, bytes. */
const defaultWindowBytes = 64 * 1024;
/**
 * Maximum size of unsent control frames for a client that does not read, bytes. Above it, the server reads nothing from the
 * client.
 */
const maxUnsentBytes = 8 * 1024;
/** How long to wait for the client to close the connection after GOAWAY, milliseconds. */
const lingerMs = 10_000;

/** Options of {@link SpdyConnection}. */
export interface SpdyConnectionOptions {
  readonly streamsPerConnection: number;
  readonly streamHeaderBytes: number;
  readonly streamBufferBytes: number;
  /** Time without a frame from the client or data for it until the connection is closed, milliseconds. */
  readonly idleTimeoutMs: number;
  /** Shared by all connections of the server. */
  readonly turns: Pick<Turns, "pass">;
  readonly memory: ConnectionMemory;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * The server's side of a SPDY/3.1 connection, after the upgrade.
 *
 * Invariants:
 * - Frames are handled one after the other. A full stream pauses the whole connection, and so do all of its streams when they
 *   reach their common limit. The existing clients (Go's spdystream) neither send WINDOW_UPDATE nor respect it, so a single
 *   stream cannot be paused.
 * - The peer's window counts only after the peer has sent a frame that shows that it maintains one.
 * - Nothing is sent before the client's first frame, because Go's client loses bytes that arrive together with the response to
 *   its upgrade.
 */
export class SpdyConnection implements RemoteStreams, StreamCarrier {
  readonly opened = new AsyncQueue<RemoteStream>();
  readonly #socket: Duplex;
  readonly #options: SpdyConnectionOptions;
  readonly #parser: FrameParser;
  readonly #decoder: HeaderDecoder;
  readonly #encoder = new HeaderEncoder();
  readonly #streams = new Map<number, SpdyStream>();
  readonly #gone = new AbortController();
  /** Aborts when the client sends nothing more, or when further frames no longer matter. */
  readonly #ended = new AbortController();
  readonly #closed = new AbortController();
  #drained: (() => void)[] = [];
  /** Bytes of control frames that are not sent yet. Does not include data, which waits for the socket. */
  #unsentBytes = 0;
  #onSent: () => void = () => {};
  #lastStreamId = 0;
  #greeted = false;
  #closing = false;
  /** Whether a stream is full, or all streams together are. Then the server reads nothing until a reader takes some data. */
  #isHeldUp = false;
  #peerWindowBytes: number | undefined;
  #lastTrafficAt: number;

  /** @param head bytes that came with the upgrade request */
  constructor(socket: Duplex, head: Buffer, options: SpdyConnectionOptions) {
    this.#socket = socket;
    this.#options = options;
    this.#parser = new FrameParser(options.streamHeaderBytes + 64);
    this.#decoder = new HeaderDecoder(options.streamHeaderBytes);
    this.#lastTrafficAt = options.clock.monotonic();
    socket.on("drain", () => this.#wake());
    socket.on("error", () => {}); // "close" follows
    socket.once("close", () => {
      this.#closed.abort();
      this.#end();
    });
    void this.#run(head);
    void this.#watch();
  }

  get gone(): AbortSignal {
    return this.#gone.signal;
  }

  async close(): Promise<void> {
    if (!this.#closing && !this.#ended.signal.aborted) {
      this.#closing = true;
      for (const stream of this.#streams.values()) stream.finish();
      // There is no time limit, because a person may be reading the output page by page.
      await this.#goAway(goAwayStatus.ok);
    }
    // The server does not close its side at once. When Go's client sees the end of the connection, it drops data that it has
    // read and not delivered yet.
    await this.#linger();
  }

  windowLeft(sentBytes: number, grantedBytes: number): number {
    if (this.#peerWindowBytes === undefined) return Infinity;
    return this.#peerWindowBytes + grantedBytes - sentBytes;
  }

  isWritable(): boolean {
    if (this.#ended.signal.aborted)
      throw new VirtualKubeletError("VK_STREAM_RESET", "Cannot send: the connection is gone");
    return !this.#socket.writableNeedDrain;
  }

  async drained(): Promise<void> {
    await new Promise<void>((resolve) => this.#drained.push(resolve));
  }

  sendData(streamId: number, data: Buffer, fin: boolean): void {
    if (this.#ended.signal.aborted) return;
    this.#lastTrafficAt = this.#options.clock.monotonic();
    this.#socket.cork();
    this.#socket.write(dataHeader(streamId, data.length, fin));
    if (data.length > 0) this.#socket.write(data);
    this.#socket.uncork();
  }

  send(frame: Exclude<Frame, { type: "data" | "unknown" }>): void {
    if (this.#ended.signal.aborted) return;
    const bytes = encodeFrame(frame);
    this.#unsentBytes += bytes.length;
    this.#socket.write(bytes, () => {
      this.#unsentBytes -= bytes.length;
      if (this.#unsentBytes <= maxUnsentBytes) this.#onSent();
    });
  }

  sendReply(streamId: number): void {
    const headerBlock = this.#encoder.encode(new Map());
    this.send({ type: "synReply", streamId, fin: false, headerBlock });
  }

  async #run(head: Buffer): Promise<void> {
    try {
      await this.#take(head);
      const chunks = this.#socket.iterator({ destroyOnReturn: false });
      for await (const chunk of chunks) await this.#take(chunk as Buffer);
      this.#socket.destroy(); // clients never close only one direction, so this one has disconnected
    } catch (error) {
      this.#options.logger.debug("A stream connection failed", { err: error });
      if (!this.#socket.destroyed) void this.#goAway(goAwayStatus.protocolError);
    } finally {
      this.#socket.end(() => this.#socket.destroy());
      this.#end();
      await this.#linger();
    }
  }

  async #take(chunk: Buffer): Promise<void> {
    for (const frame of this.#parser.push(chunk)) {
      this.#lastTrafficAt = this.#options.clock.monotonic();
      if (!this.#greeted) {
        this.#greeted = true;
        const window = this.#options.streamBufferBytes;
        this.send({ type: "settings", settings: new Map([[initialWindowSetting, window]]) });
      }
      if (this.#ended.signal.aborted) return;
      await this.#handle(frame);
      if (this.#unsentBytes > maxUnsentBytes) await this.#answersSent();
      const turn = this.#options.turns.pass();
      if (turn) await turn;
    }
  }

  /** Resolves when most control frames are sent, or can no longer be. */
  async #answersSent(): Promise<void> {
    if (this.#ended.signal.aborted) return;
    await new Promise<void>((resolve) => {
      this.#onSent = resolve;
    });
  }

  async #handle(frame: Frame): Promise<void> {
    switch (frame.type) {
      case "synStream":
        return await this.#open(frame);
      case "data": {
        const stream = this.#streams.get(frame.streamId);
        const room = stream?.deliver(frame.data, frame.fin);
        if (room) await this.#holdUp(room);
        const roomForAll = this.#options.memory.room();
        if (roomForAll) await this.#holdUp(roomForAll);
        if (frame.streamId > this.#lastStreamId)
          throw protocolError("a data frame is of a stream that was never opened");
        return;
      }
      case "headers":
        await this.#decoder.decode(frame.headerBlock); // keeps the compression context in sync
        if (frame.fin) void this.#streams.get(frame.streamId)?.deliver(Buffer.alloc(0), true);
        return;
      case "synReply":
        throw protocolError("a reply is of a stream that was never opened");
      case "ping":
        // Odd IDs are the client's pings. Even ones are responses to ours.
        if (frame.id % 2 === 1) this.send(frame);
        return;
      default:
        return this.#control(frame);
    }
  }

  async #holdUp(room: Promise<void>): Promise<void> {
    this.#isHeldUp = true;
    await room;
    this.#isHeldUp = false;
  }

  #control(frame: Frame): void {
    switch (frame.type) {
      case "rstStream":
        this.#streams.get(frame.streamId)?.resetByPeer(frame.status);
        return;
      case "settings": {
        const window = frame.settings.get(initialWindowSetting);
        if (window !== undefined) this.#peerWindowBytes = window;
        return;
      }
      case "windowUpdate":
        this.#peerWindowBytes ??= defaultWindowBytes;
        this.#streams.get(frame.streamId)?.windowUpdate(frame.delta);
        return;
      default: // GOAWAY: the client closes the connection itself; ignores others
    }
  }

  async #open(frame: Extract<Frame, { type: "synStream" }>): Promise<void> {
    const { streamId } = frame;
    if (streamId % 2 === 0 || streamId <= this.#lastStreamId)
      throw protocolError("a stream has a number that is not its turn");
    this.#lastStreamId = streamId;
    const headers = await this.#decoder.decode(frame.headerBlock);
    if (
      this.#closing ||
      frame.unidirectional ||
      this.#streams.size >= this.#options.streamsPerConnection ||
      !this.#options.memory.hasRoomFor(1)
    ) {
      this.send({ type: "rstStream", streamId, status: rstStatus.refusedStream });
      return;
    }
    const stream = new SpdyStream(streamId, headers, this, this.#options.streamBufferBytes);
    this.#options.memory.watch(stream);
    this.#streams.set(streamId, stream);
    stream.once("close", () => this.#streams.delete(streamId));
    this.opened.push(stream);
    if (frame.fin) void stream.deliver(Buffer.alloc(0), true);
  }

  async #watch(): Promise<void> {
    let pingId = 2;
    await watchIdle({
      idleTimeoutMs: this.#options.idleTimeoutMs,
      clock: this.#options.clock,
      ended: this.#ended.signal,
      lastTrafficAt: () => this.#lastTrafficAt,
      probe: () => {
        if (this.#isHeldUp) this.send({ type: "ping", id: pingId });
        pingId += 2;
      },
      onIdle: () => this.#socket.destroy(),
    });
  }

  async #linger(): Promise<void> {
    await pause(lingerMs, this.#options.clock, this.#closed.signal);
    this.#socket.destroy();
  }

  /** Resolves when everything up to this frame is sent, or can no longer be. */
  async #goAway(status: number): Promise<void> {
    if (this.#ended.signal.aborted) return;
    const frame = encodeFrame({ type: "goAway", lastStreamId: this.#lastStreamId, status });
    await new Promise<void>((resolve) => {
      this.#closed.signal.addEventListener("abort", () => resolve(), { once: true });
      this.#socket.write(frame, () => resolve());
    });
  }

  #wake(): void {
    const waiting = this.#drained;
    this.#drained = [];
    for (const resolve of waiting) resolve();
  }

  #end(): void {
    if (this.#ended.signal.aborted) return;
    this.#ended.abort();
    this.#wake();
    this.#onSent();
    this.#decoder.close();
    for (const stream of this.#streams.values()) stream.connectionLost();
    this.opened.end();
    if (!this.#closing)
      this.#gone.abort(
        new VirtualKubeletError("VK_STREAM_RESET", "Cannot go on: the client is gone"),
      );
  }
}

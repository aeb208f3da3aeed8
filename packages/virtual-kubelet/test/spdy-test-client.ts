import { EventEmitter, once } from "node:events";
import https from "node:https";
import type { Duplex } from "node:stream";
import type { TLSSocket } from "node:tls";
import zlib from "node:zlib";
import { spdyDictionary } from "../src/kubelet-api/spdy/dictionary.ts";
import { encodeFrame, FrameParser, type Frame } from "../src/kubelet-api/spdy/frames.ts";
import { HeaderDecoder, serializeHeaders } from "../src/kubelet-api/spdy/headers.ts";

/** A SPDY/3.1 client for tests: compresses its headers as Go's client does, and sees every frame. */
export class SpdyTestClient {
  readonly socket: Duplex;
  /** Takes each data frame instead of `frames`, for those who only count. */
  onData: ((frame: Extract<Frame, { type: "data" }>) => void) | undefined;
  /** Every frame received, in order; data frames are the pieces the parser gives. */
  readonly frames: Frame[] = [];
  /** Resolves when the server has ended the connection. */
  readonly closed: Promise<void>;
  readonly #events = new EventEmitter().setMaxListeners(0);
  readonly #deflate = zlib.createDeflate({ dictionary: spdyDictionary, level: 9 });
  #nextId = 1;

  /** Asks a server for SPDY with this protocol, and waits until it has upgraded the connection. */
  static async connect(where: https.RequestOptions, protocol: string): Promise<SpdyTestClient> {
    const headers = {
      Connection: "Upgrade",
      Upgrade: "SPDY/3.1",
      "X-Stream-Protocol-Version": protocol,
    };
    const request = https.request({ ...where, method: "POST", agent: false, headers });
    request.end();
    const [, socket] = (await once(request, "upgrade")) as [unknown, TLSSocket]; // as Node documents it
    return new SpdyTestClient(socket);
  }

  constructor(socket: Duplex) {
    this.socket = socket;
    socket.on("error", () => {});
    this.closed = this.#read();
  }

  /** Opens a stream without waiting for the reply; gives its id. */
  async open(headers: Readonly<Record<string, string>>, options: { fin?: boolean } = {}) {
    const streamId = this.#nextId;
    this.#nextId += 2;
    const headerBlock = await this.compress(serializeHeaders(new Map(Object.entries(headers))));
    const fin = options.fin ?? false;
    this.send({ type: "synStream", streamId, fin, unidirectional: false, headerBlock });
    return streamId;
  }

  /** The next block of the client's compression context. */
  async compress(content: Buffer): Promise<Buffer> {
    const chunks: Buffer[] = [];
    const collect = (chunk: Buffer): void => void chunks.push(chunk);
    this.#deflate.on("data", collect);
    this.#deflate.write(content);
    await new Promise<void>((resolve) => {
      this.#deflate.flush(zlib.constants.Z_SYNC_FLUSH, resolve);
    });
    this.#deflate.off("data", collect);
    return Buffer.concat(chunks);
  }

  send(frame: Exclude<Frame, { type: "unknown" }>): void {
    this.socket.write(encodeFrame(frame));
  }

  data(streamId: number, data: string | Buffer, fin = false): void {
    this.send({ type: "data", streamId, fin, data: Buffer.from(data) });
  }

  /** Waits for a frame of a stream, or of the connection. */
  async frame(type: Frame["type"], streamId?: number): Promise<Frame> {
    const matches = (frame: Frame): boolean =>
      frame.type === type &&
      (streamId === undefined || ("streamId" in frame && frame.streamId === streamId));
    for (;;) {
      const found = this.frames.find(matches);
      if (found) return found;
      const [event] = (await once(this.#events, "frame")) as [string];
      if (event === "closed" && !this.frames.some(matches))
        throw new Error(`The connection ended without a frame "${type}"`);
    }
  }

  /** What the server has sent on a stream so far. */
  received(streamId: number): Buffer {
    const pieces = this.frames.map((frame) =>
      frame.type === "data" && frame.streamId === streamId ? frame.data : Buffer.alloc(0),
    );
    return Buffer.concat(pieces);
  }

  /** Waits for the server's end of a stream; gives all it sent. */
  async ended(streamId: number): Promise<Buffer> {
    const isEnd = (frame: Frame): boolean =>
      frame.type === "data" && frame.streamId === streamId && frame.fin;
    while (!this.frames.some(isEnd)) {
      const [event] = (await once(this.#events, "frame")) as [string];
      if (event === "closed" && !this.frames.some(isEnd))
        throw new Error("The connection ended before the stream");
    }
    return this.received(streamId);
  }

  async #read(): Promise<void> {
    const parser = new FrameParser(1 << 16);
    const decoder = new HeaderDecoder(1 << 16);
    try {
      for await (const chunk of this.socket) {
        for (const frame of parser.push(chunk as Buffer)) {
          if (frame.type === "synReply") await decoder.decode(frame.headerBlock);
          if (frame.type === "data" && this.onData) this.onData(frame);
          else this.frames.push(frame);
          this.#events.emit("frame", "frame");
        }
      }
    } catch {
      // a reset connection is an ended one
    } finally {
      decoder.close();
      this.#events.emit("frame", "closed");
    }
  }
}

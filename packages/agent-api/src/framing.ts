import type { Writable } from "node:stream";
import { AgentError } from "./errors.ts";
/**
 * Framing of exec and attach: each direction is a sequence of frames
 * `channel (1 byte) | length (4 bytes, big endian, ≤ 1 MiB; exit and resize ≤ 64 KiB) | payload`.
 *
 * | channel | direction | payload |
 * | --- | --- | --- |
 * | 0 stdin | kip → agent | bytes; an empty frame ends the process's input |
 * | 1 stdout, 2 stderr | agent → kip | bytes |
 * | 3 exit | agent → kip, last frame | JSON `{"exitCode": n}` or `{"error": "..."}` |
 * | 4 resize | kip → agent | JSON `{"columns": n, "rows": n}` |
 * | 5 command | kip → agent, first frames | JSON list of words, in as many frames as it takes; an empty frame ends it |
 *
 * The end of the request's body ends the process's input too, and no resize can follow it. Channel 5
 * is used only by an exec whose query says `commandFrames`: HTTP/2 takes no path above 64 KiB.
 */
export const channels = { stdin: 0, stdout: 1, stderr: 2, exit: 3, resize: 4, command: 5 } as const;

/** The number of a channel. */
export type Channel = (typeof channels)[keyof typeof channels];

/** Maximum payload of one frame, bytes. */
export const maxFrameBytes = 1024 * 1024;
/** Maximum payload of a frame that is yielded whole, and of one with a document, bytes. */
const maxWholeBytes = 64 * 1024;

const headerBytes = 5;

/** A decoded frame, or a part of one above 64 KiB. */
export interface Frame {
  readonly channel: Channel;
  /** A part of the parser's input, which must not be changed afterwards. Not a copy. */
  readonly payload: Buffer;
}

/** The five-byte header of a payload of `length` bytes (0 to the limit of its channel). */
export function frameHeader(channel: Channel, length: number): Buffer {
  if (length > maxBytesOf(channel)) throw new RangeError(`A frame takes no ${length} bytes`);
  const header = Buffer.allocUnsafe(headerBytes);
  header.writeUInt8(channel, 0);
  header.writeUInt32BE(length, 1);
  return header;
}

/**
 * Splits a byte stream into frames. Copies each byte a limited number of times, however small the peer's chunks are.
 *
 * A frame of up to 64 KiB is yielded whole, and a longer one in parts of at least that, except for the last. So a hostile peer
 * that does not finish its frames takes no more than 128 KiB of each stream, because the buffer doubles its size.
 */
export class FrameParser {
  /** Bytes that are kept until there are enough, in the first {@link #restBytes} bytes. */
  #rest: Buffer = Buffer.alloc(0);
  #restBytes = 0;
  /** The frame whose header was read, with the length of its payload that is missing, bytes. */
  #frame: { readonly channel: Channel; missingBytes: number } | undefined;

  /**
   * The frames, or parts of long ones, that this chunk completes.
   *
   * @throws {AgentError} code `AGENT_FRAME_INVALID` for an unknown channel or a length above the limit
   */
  *push(chunk: Buffer): Generator<Frame, void, void> {
    let data = chunk;
    if (this.#restBytes > 0) {
      this.#keep(chunk);
      if (this.#restBytes < this.#wantedBytes) return;
      data = this.#rest.subarray(0, this.#restBytes);
      this.#rest = Buffer.alloc(0); // the yielded frames refer to it
      this.#restBytes = 0;
    }
    while (data.length >= this.#wantedBytes) {
      if (this.#frame === undefined) {
        this.#frame = readHeader(data);
        data = data.subarray(headerBytes);
        continue;
      }
      const { channel, missingBytes } = this.#frame;
      const payload = data.subarray(0, missingBytes);
      data = data.subarray(payload.length);
      this.#frame.missingBytes -= payload.length;
      if (this.#frame.missingBytes === 0) this.#frame = undefined;
      yield { channel, payload };
    }
    this.#keep(data);
  }

  /**
   * Call this at the end of the stream.
   *
   * @throws {AgentError} code `AGENT_FRAME_INVALID` if it ended within a frame
   */
  end(): void {
    if (this.#frame || this.#restBytes > 0) throw invalidFrame("the stream ends within it");
  }

  /** Number of bytes that are needed before parsing can continue. */
  get #wantedBytes(): number {
    return this.#frame ? Math.min(this.#frame.missingBytes, maxWholeBytes) : headerBytes;
  }

  /** Keeps bytes, in a buffer that doubles its size. */
  #keep(bytes: Buffer): void {
    const size = this.#restBytes + bytes.length;
    if (size > this.#rest.length) {
      const larger = Buffer.allocUnsafe(Math.max(size, 2 * this.#rest.length));
      this.#rest.copy(larger, 0, 0, this.#restBytes);
      this.#rest = larger;
    }
    bytes.copy(this.#rest, this.#restBytes);
    this.#restBytes = size;
  }
}

/** Writes frames to a stream. Several writers may use it concurrently, and each waits until the stream accepts more. */
export class FrameWriter {
  readonly #stream: Writable;

  constructor(stream: Writable) {
    this.#stream = stream;
    // Each waiting writer listens for "drain".
    stream.setMaxListeners(20);
  }

  /**
   * Writes bytes in as many frames as needed. Empty bytes result in one empty frame. Resolves when the stream accepts more, or
   * at once if it is closed.
   */
  async write(channel: Channel, payload: Uint8Array): Promise<void> {
    let start = 0;
    do {
      const part = payload.subarray(start, start + maxFrameBytes);
      start += part.length;
      if (this.#stream.destroyed || this.#stream.writableEnded) return;
      this.#stream.cork(); // one piece for the peer instead of two
      let hasRoom = this.#stream.write(frameHeader(channel, part.length));
      if (part.length > 0) hasRoom = this.#stream.write(part);
      this.#stream.uncork();
      if (!hasRoom) await room(this.#stream);
    } while (start < payload.length);
  }

  /** Writes a JSON document as one frame. */
  async writeJson(channel: Channel, value: unknown): Promise<void> {
    await this.write(channel, Buffer.from(JSON.stringify(value)));
  }
}

/** Writes bytes to a stream. Resolves when it accepts more, or at once if it is closed. */
export async function writeTo(sink: Writable, bytes: Uint8Array): Promise<void> {
  if (sink.destroyed || sink.writableEnded || sink.write(bytes)) return;
  await room(sink);
}

/** Waits until the stream accepts more or is closed. */
async function room(stream: Writable): Promise<void> {
  await new Promise<void>((resolve) => {
    const done = (): void => {
      stream.off("drain", done).off("close", done);
      resolve();
    };
    stream.once("drain", done).once("close", done);
  });
}

/** Reads the header at the beginning of `data`, and checks its length before the payload is kept. */
function readHeader(data: Buffer): { readonly channel: Channel; missingBytes: number } {
  const channel = readChannel(data.readUInt8(0));
  const length = data.readUInt32BE(1);
  if (length > maxBytesOf(channel)) throw invalidFrame(`its length is ${length} bytes`);
  return { channel, missingBytes: length };
}

function maxBytesOf(channel: Channel): number {
  const isDocument = channel === channels.exit || channel === channels.resize;
  return isDocument ? maxWholeBytes : maxFrameBytes;
}

function readChannel(value: number): Channel {
  const known = Object.values(channels).find((channel) => channel === value);
  if (known === undefined) throw invalidFrame(`there is no channel ${value}`);
  return known;
}

function invalidFrame(reason: string): AgentError {
  return new AgentError("AGENT_FRAME_INVALID", `Cannot read a frame: ${reason}`);
}

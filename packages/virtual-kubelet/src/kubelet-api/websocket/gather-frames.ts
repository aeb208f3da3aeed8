import type { Readable } from "node:stream";
import { GrowingBuffer } from "@kip/base";

/** Pieces of an unfinished frame are passed on when they have this length together, bytes. */
const gatheredBytes = 16 * 1024;
const firstControlOpcode = 8;

/** What tells whether messages may be as long as their heads say. */
export interface MessageMemory {
  /** Counts bytes of a message that has `messageBytes` so far. @returns whether there is room for them */
  take(bytes: number, messageBytes: number): boolean;
  give(bytes: number): void;
}

/**
 * Passes the frames of a WebSocket's client on in pieces of 16 KiB at least: the library that assembles messages keeps some 500 bytes for
 * each piece, and a hostile client sends single bytes. Counts messages as long as their heads say, and destroys the connection
 * if there is no room for one.
 *
 * @param head what has come already
 */
export function gatherFrames(socket: Readable, head: Buffer, memory: MessageMemory): void {
  const push = socket.push.bind(socket);
  const held = new GrowingBuffer();
  const frames = new FrameEnds();
  let taken = 0;
  const give = (): void => {
    memory.give(taken);
    taken = 0;
  };
  /** @returns whether a frame ended in the piece; undefined if there is no room */
  const follow = (piece: Buffer): boolean | undefined => {
    const { hasEnd, messageBytes } = frames.follow(piece);
    if (messageBytes < taken) give();
    const more = messageBytes - taken;
    if (more > 0 && !memory.take(more, messageBytes)) return undefined;
    taken = messageBytes;
    return hasEnd;
  };
  const flush = (): boolean => held.length === 0 || push(held.take());
  socket.once("close", give);
  if (follow(head) === undefined) socket.destroy();
  socket.push = (piece: Buffer | null, encoding?: BufferEncoding) => {
    if (piece === null) {
      flush();
      return push(null, encoding);
    }
    const hasEnd = follow(piece);
    if (hasEnd === undefined) {
      socket.destroy();
      return false;
    }
    if (held.length === 0 && (hasEnd || piece.length >= gatheredBytes))
      return push(piece, encoding);
    held.append(piece);
    return hasEnd || held.length >= gatheredBytes ? flush() : true;
  };
}

/** Where frames end, and how long their messages are: RFC 6455, section 5.2. */
class FrameEnds {
  readonly #head = new GrowingBuffer();
  #payloadLeft = 0;
  /** Whether the frame whose payload comes is the last of its message. */
  #isLast = false;
  #messageBytes = 0;

  /** @returns also the length of the message that has not ended after the piece, bytes, as far as its heads say */
  follow(piece: Buffer): { readonly hasEnd: boolean; readonly messageBytes: number } {
    let hasEnd = false;
    let at = 0;
    while (at < piece.length) {
      if (this.#payloadLeft === 0) {
        this.#head.append(piece.subarray(at, at + 1));
        at += 1;
        if (!this.#takeHead()) continue;
      }
      const part = Math.min(this.#payloadLeft, piece.length - at);
      at += part;
      this.#payloadLeft -= part;
      if (this.#payloadLeft > 0) break;
      hasEnd = true;
      if (this.#isLast) this.#messageBytes = 0;
    }
    return { hasEnd, messageBytes: this.#messageBytes };
  }

  /** Reads the head of a frame. @returns whether it is complete */
  #takeHead(): boolean {
    const { bytes } = this.#head;
    const second = bytes.length > 1 ? bytes.readUInt8(1) : 0;
    const short = second & 0x7f;
    const lengthBytes = short === 127 ? 8 : short === 126 ? 2 : 0;
    const maskBytes = (second & 0x80) === 0 ? 0 : 4;
    if (bytes.length < 2 + lengthBytes + maskBytes) return false;
    const length =
      lengthBytes === 0
        ? short
        : lengthBytes === 2
          ? bytes.readUInt16BE(2)
          : Number(bytes.readBigUInt64BE(2));
    const first = bytes.readUInt8(0);
    this.#head.take();
    this.#payloadLeft = length;
    const isControl = (first & 0x0f) >= firstControlOpcode;
    this.#isLast = !isControl && (first & 0x80) !== 0;
    if (!isControl) this.#messageBytes += length;
    return true;
  }
}

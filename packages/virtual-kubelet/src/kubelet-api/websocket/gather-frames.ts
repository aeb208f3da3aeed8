import type { Readable } from "node:stream";
import { GrowingBuffer } from "@kip/base";

/** Pieces of an unfinished frame are passed on when they are this long together, bytes. */
const gatheredBytes = 16 * 1024;
const firstControlOpcode = 8;

/** Limits for unfinished messages of a WebSocket. */
export interface MessageLimits {
  /**
   * Maximum length of a message, bytes. A longer one is passed on without being counted, and the library refuses it because of
   * its head.
   */
  readonly maxMessageBytes: number;
  /** Counts bytes of a message that has `messageBytes` so far. @returns whether there is room for them */
  take(bytes: number, messageBytes: number): boolean;
  give(bytes: number): void;
  /** Called once if there is no room for a message. Nothing is passed on afterwards. */
  refuse(): void;
}

/**
 * Passes the frames of a WebSocket client on in pieces of at least 16 KiB. The library that assembles messages keeps about 500
 * bytes for each piece, and a hostile client could send single bytes. Counts messages by the length in their frame heads.
 *
 * @param head bytes that have already arrived
 */
export function gatherFrames(socket: Readable, head: Buffer, limits: MessageLimits): void {
  if (socket.destroyed) return; // "close" may have been emitted already
  const push = socket.push.bind(socket);
  const held = new GrowingBuffer();
  const frames = new FrameEnds();
  let taken = 0;
  let isRefused = false;
  const give = (): void => {
    limits.give(taken);
    taken = 0;
  };
  /** @returns whether to pass the gathered bytes on now */
  const follow = (piece: Buffer): boolean => {
    const { hasEnd, messageBytes } = frames.follow(piece);
    if (messageBytes > limits.maxMessageBytes) return true;
    if (messageBytes < taken) give();
    const more = messageBytes - taken;
    isRefused = more > 0 && !limits.take(more, messageBytes);
    if (isRefused) limits.refuse();
    else taken = messageBytes;
    return hasEnd;
  };
  const flush = (): boolean => held.length === 0 || push(held.take());
  socket.once("close", give);
  follow(head);
  socket.push = (piece: Buffer | null, encoding?: BufferEncoding) => {
    if (piece === null) {
      flush();
      return push(null, encoding);
    }
    const isDue = !isRefused && follow(piece);
    if (isRefused) return true;
    if (held.length === 0 && (isDue || piece.length >= gatheredBytes)) return push(piece, encoding);
    held.append(piece);
    return isDue || held.length >= gatheredBytes ? flush() : true;
  };
}

/** Maximum length of a frame head: two bytes, eight for the length, four for the mask. */
const maxHeadBytes = 14;

/** Tracks where frames end and how long their messages are: RFC 6455, section 5.2. */
class FrameEnds {
  readonly #head = Buffer.alloc(maxHeadBytes);
  #headBytes = 0;
  #payloadLeft = 0;
  /** Whether the current frame is the last one of its message. */
  #isLast = false;
  #messageBytes = 0;

  /**
   * @returns whether a frame ends in the piece, and the length of the message that is unfinished after it, bytes, according to
   * its frame heads
   */
  follow(piece: Buffer): { readonly hasEnd: boolean; readonly messageBytes: number } {
    let hasEnd = false;
    let at = 0;
    while (at < piece.length) {
      if (this.#payloadLeft === 0) {
        this.#head.writeUInt8(piece.readUInt8(at), this.#headBytes);
        this.#headBytes += 1;
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
    const head = this.#head;
    if (this.#headBytes < 2) return false;
    const second = head.readUInt8(1);
    const short = second & 0x7f;
    const lengthBytes = short === 127 ? 8 : short === 126 ? 2 : 0;
    const maskBytes = (second & 0x80) === 0 ? 0 : 4;
    if (this.#headBytes < 2 + lengthBytes + maskBytes) return false;
    this.#headBytes = 0;
    const length =
      lengthBytes === 0
        ? short
        : lengthBytes === 2
          ? head.readUInt16BE(2)
          : Number(head.readBigUInt64BE(2));
    const first = head.readUInt8(0);
    this.#payloadLeft = length;
    const isControl = (first & 0x0f) >= firstControlOpcode;
    this.#isLast = !isControl && (first & 0x80) !== 0;
    if (!isControl) this.#messageBytes += length;
    return true;
  }
}

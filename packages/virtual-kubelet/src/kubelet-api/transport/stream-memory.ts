import type { Duplex } from "node:stream";
import { holdSmallWrites, mergeSmallPieces } from "@kip/base";

/** What one connection may have however much all others have. */
const least = { bytes: 64 * 1024, streams: 8 } as const;

/** Limits of {@link StreamMemory}. */
export interface StreamMemoryLimits {
  /** Bytes that the streams of one connection hold for their readers. */
  readonly connectionBytes: number;
  /** The same for all connections together, besides 64 KiB for each. */
  readonly allBytes: number;
  /** Streams open on all connections together, besides 8 for each. */
  readonly allStreams: number;
}

/**
 * Bounds what the streams of a server take of its memory, whatever its clients send. A connection may hold an eighth of what
 * is left for all, so that no client takes the room of all others.
 */
export class StreamMemory {
  readonly #limits: StreamMemoryLimits;
  /** Connections that wait for room. */
  readonly #waiting = new Set<ConnectionMemory>();
  #bytes = 0;
  #streams = 0;
  #wakesSoon = false;

  constructor(limits: StreamMemoryLimits) {
    this.#limits = limits;
  }

  connection(): ConnectionMemory {
    return new ConnectionMemory({
      change: (bytes, streams) => {
        this.#bytes += bytes;
        this.#streams += streams;
        if (bytes < 0) this.#wakeSoon();
      },
      waiting: this.#waiting,
      maxBytes: () => {
        const { connectionBytes, allBytes } = this.#limits;
        return Math.max(least.bytes, Math.min(connectionBytes, (allBytes - this.#bytes) / 8));
      },
      hasRoom: (streams) => this.#streams + streams <= this.#limits.allStreams,
    });
  }

  /** What one connection gives back is room for others, whose own readers may take nothing. */
  #wakeSoon(): void {
    if (this.#wakesSoon || this.#waiting.size === 0) return;
    this.#wakesSoon = true;
    setImmediate(() => {
      this.#wakesSoon = false;
      for (const connection of this.#waiting) connection.wake();
    });
  }
}

interface Server {
  change(bytes: number, streams: number): void;
  readonly waiting: Set<ConnectionMemory>;
  /** Bytes that a connection may hold now. */
  maxBytes(): number;
  /** Whether so many more streams may be open. */
  hasRoom(streams: number): boolean;
}

/** What the streams of one connection take. */
export class ConnectionMemory {
  readonly #server: Server;
  #bytes = 0;
  #streams = 0;
  #waiting: (() => void)[] = [];

  constructor(server: Server) {
    this.#server = server;
  }

  /** Whether so many more streams may be opened. */
  hasRoomFor(streams: number): boolean {
    return this.#streams + streams <= least.streams || this.#server.hasRoom(streams);
  }

  /** Counts a stream until it is closed, with what its reader has not taken. Small pieces are merged, both ways. */
  watch(stream: Duplex): void {
    stream.setMaxListeners(20); // each copy to it and from it has some, besides ours
    holdSmallWrites(stream);
    const held = mergeSmallPieces(stream);
    const push = stream.push.bind(stream);
    const read = stream.read.bind(stream);
    let counted = 0;
    const count = (streams = 0): void => {
      const bytes = stream.closed ? 0 : stream.readableLength + held();
      if (bytes !== counted || streams !== 0) this.#change(bytes - counted, streams);
      counted = bytes;
    };
    stream.push = (piece, encoding) => {
      const hasRoom = push(piece, encoding);
      count();
      return hasRoom;
    };
    stream.read = (size): unknown => {
      const piece: unknown = read(size);
      count();
      return piece;
    };
    stream.once("close", () => count(-1));
    count(1);
  }

  /** @returns undefined if the streams may hold more, else a promise that resolves when they may */
  room(): Promise<void> | undefined {
    if (this.#bytes <= this.#server.maxBytes()) return undefined;
    this.#server.waiting.add(this);
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /**
   * Counts bytes of a message that has not come to its end, with all of a server.
   *
   * @param messageBytes what the message has with them: at most what the streams of a connection may hold
   * @returns false if there is no room; they are not counted then
   */
  take(bytes: number, messageBytes: number): boolean {
    if (messageBytes > this.#server.maxBytes()) return false;
    this.#server.change(bytes, 0);
    return true;
  }

  /** Reverse of {@link take}. */
  give(bytes: number): void {
    this.#server.change(-bytes, 0);
  }

  #change(bytes: number, streams: number): void {
    this.#bytes += bytes;
    this.#streams += streams;
    this.#server.change(bytes, streams);
    if (this.#waiting.length > 0) this.wake();
  }

  /** Lets those go on who wait for room, if there is some. */
  wake(): void {
    if (this.#bytes > this.#server.maxBytes()) return;
    this.#server.waiting.delete(this);
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }
}

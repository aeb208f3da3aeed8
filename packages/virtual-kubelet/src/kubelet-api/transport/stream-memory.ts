import type { Duplex } from "node:stream";
import { holdSmallWrites, mergeSmallPieces } from "@kip/base";

/** Guaranteed minimum of each connection, however much the others use. */
const least = { bytes: 64 * 1024, streams: 8 } as const;

/** Limits of {@link StreamMemory}. */
export interface StreamMemoryLimits {
  /** Bytes that the streams of one connection may buffer for their readers. */
  readonly connectionBytes: number;
  /** The same for all connections together, in addition to 64 KiB for each. */
  readonly allBytes: number;
  /** Open streams of all connections together, in addition to 8 for each. */
  readonly allStreams: number;
}

/**
 * Limits how much memory the streams of a server use, whatever its clients send. A connection may use an eighth of the memory
 * that is left, so that no client can take all of it.
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

  /** Memory that one connection returns is available to others, even if their own readers take nothing. */
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
  /** Bytes that a connection may buffer now. */
  maxBytes(): number;
  /** Whether this many more streams may be open. */
  hasRoom(streams: number): boolean;
}

/** Memory use of the streams of one connection. */
export class ConnectionMemory {
  readonly #server: Server;
  #bytes = 0;
  #streams = 0;
  #waiting: (() => void)[] = [];

  constructor(server: Server) {
    this.#server = server;
  }

  /** Whether this many more streams may be opened. */
  hasRoomFor(streams: number): boolean {
    return this.#streams + streams <= least.streams || this.#server.hasRoom(streams);
  }

  /**
   * Counts a stream until it is closed, with the data that its reader has not taken. Merges small pieces in both directions.
   */
  watch(stream: Duplex): void {
    stream.setMaxListeners(20); // copying to it and from it adds listeners to ours
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

  /** @returns undefined if the streams may buffer more, or a promise that resolves when they may */
  room(): Promise<void> | undefined {
    if (this.#bytes <= this.#server.maxBytes()) return undefined;
    this.#server.waiting.add(this);
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /**
   * Counts bytes of an unfinished message against the limit of the whole server.
   *
   * @param messageBytes size of the message including them; at most what the streams of a connection may buffer
   * @returns false if there is no room; then they are not counted
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

  /** Lets waiting callers continue if there is room. */
  wake(): void {
    if (this.#bytes > this.#server.maxBytes()) return;
    this.#server.waiting.delete(this);
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }
}

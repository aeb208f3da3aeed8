import type { Duplex } from "node:stream";

/** One stream that a client opened, whatever carries it. */
export interface RemoteStream {
  /** Grows with each stream of a connection. */
  readonly id: number;
  /** What the client said the stream is for; names in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  /**
   * Its bytes in both directions. Both directions end on their own: the client's end is the end of
   * reading, `end()` tells the client that nothing more comes. `destroy()` resets the stream. Errors
   * need no listener.
   */
  readonly duplex: Duplex;
  /** Tells the client that the stream is taken. */
  accept(): void;
  /** Tells the client that the stream is not wanted. */
  reject(): void;
}

/**
 * The streams of one exec, attach or port-forward: what SPDY and WebSocket have in common. The
 * protocols on top ({@link serveRemoteCommand}, {@link servePortForward}) know nothing else.
 */
export interface RemoteStreams {
  /** Streams in the order the client opened them; ends when the connection is gone. For one reader. */
  readonly opened: AsyncIterable<RemoteStream>;
  /** Aborts once, when the connection is gone before `close` was called. */
  readonly gone: AbortSignal;
  /**
   * Closes the connection once everything written is on its way, and waits a few seconds at most for the client to
   * close it, too.
   */
  close(): Promise<void>;
}

/** What the client asked to be connected to. */
export interface RemoteCommandStreams {
  readonly stdin: boolean;
  readonly stdout: boolean;
  readonly stderr: boolean;
  readonly tty: boolean;
}

/** What sets the versions of the protocol apart. */
export interface RemoteCommandDialect {
  /** The outcome is a Status in JSON; else it is text, and nothing in case of success. */
  readonly hasJsonStatus: boolean;
  /** A terminal has a stream for its sizes. */
  readonly hasResizes: boolean;
}

import type { Duplex } from "node:stream";

/** A stream that a client opened, over SPDY or WebSocket. */
export interface RemoteStream {
  /** Increases with each stream of a connection. */
  readonly id: number;
  /** The client's description of the stream. Names are in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  /**
   * The bytes in both directions, which end independently. Reading ends when the client ends its direction, and `end()` tells
   * the client that nothing more follows. `destroy()` resets the stream. Errors need no listener.
   */
  readonly duplex: Duplex;
  /** Tells the client that the server accepts the stream. */
  accept(): void;
  /** Tells the client that the server rejects the stream. */
  reject(): void;
}

/**
 * The streams of one exec, attach or port-forward, over SPDY or WebSocket. The protocols on top ({@link serveRemoteCommand},
 * {@link servePortForward}) only know this interface.
 */
export interface RemoteStreams {
  /** Streams in the order in which the client opened them. Ends when the connection is gone. For one reader. */
  readonly opened: AsyncIterable<RemoteStream>;
  /** Aborts once, if the connection is lost before `close` is called. */
  readonly gone: AbortSignal;
  /**
   * Sends everything that was written and closes the connection. Waits at most a few seconds for the client to close it, too.
   */
  close(): Promise<void>;
}

/** The streams that the client asked for. */
export interface RemoteCommandStreams {
  readonly stdin: boolean;
  readonly stdout: boolean;
  readonly stderr: boolean;
  readonly tty: boolean;
}

/** Differences between the versions of the protocol. */
export interface RemoteCommandDialect {
  /** Whether the outcome is a Status in JSON. Otherwise it is text, and empty for success. */
  readonly hasJsonStatus: boolean;
  /** Whether a terminal has a stream for its sizes. */
  readonly hasResizes: boolean;
}

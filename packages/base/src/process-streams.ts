import type { Readable, Writable } from "node:stream";

/** Size of a terminal in characters. */
export interface TerminalSize {
  readonly columns: number;
  readonly rows: number;
}

/**
 * The streams of a process that a client is connected to (exec, attach), from the server's point of view. Streams that the
 * client did not ask for are absent. All protocols use the same shape: SPDY and WebSocket at the kubelet port, HTTP/2 to a
 * cell, and a pseudo-terminal on the cell.
 */
export interface ProcessStreams {
  /** What the client types. Its end is end of input for the process. */
  readonly stdin?: Readable | undefined;
  /** What the process prints. The server ends it. With a terminal, it includes standard error. */
  readonly stdout?: Writable | undefined;
  readonly stderr?: Writable | undefined;
  /** Whether the process has a terminal. */
  readonly tty: boolean;
  /** Sizes of the client's terminal, the first one soon after the start. Only with `tty`. */
  readonly resizes?: AsyncIterable<TerminalSize> | undefined;
}

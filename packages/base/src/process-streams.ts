import type { Readable, Writable } from "node:stream";

/** Size of a terminal in characters. */
export interface TerminalSize {
  readonly columns: number;
  readonly rows: number;
}

/**
 * The streams of a process that somebody is connected to (exec, attach), as the side that serves
 * the process sees them. Absent streams were not asked for. The same shape is used behind every protocol:
 * SPDY and WebSocket at the kubelet port, HTTP/2 towards a cell, a pseudo-terminal on it.
 */
export interface ProcessStreams {
  /** What the client types; its end is the process's end of input. */
  readonly stdin?: Readable | undefined;
  /** What the process prints; the server ends it. With a terminal, standard error comes here too. */
  readonly stdout?: Writable | undefined;
  readonly stderr?: Writable | undefined;
  /** Whether the process has a terminal. */
  readonly tty: boolean;
  /** Sizes the client's terminal takes, the first one soon after the start; only with `tty`. */
  readonly resizes?: AsyncIterable<TerminalSize> | undefined;
}

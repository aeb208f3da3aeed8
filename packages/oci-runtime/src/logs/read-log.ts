/** What part of a log to read. */
export interface LogReadOptions {
  /** Go on with what comes until the container has ended. @default false */
  readonly follow?: boolean;
  /** Put the time before each line. @default false */
  readonly timestamps?: boolean;
  /** Only the last lines, 0 or more. @default all */
  readonly tailLines?: number;
  /** Only lines at or after this time, milliseconds since the epoch. */
  readonly sinceTimeMs?: number;
  /** Ends after so many bytes of output, 1 or more. */
  readonly limitBytes?: number;
}

/** How much of a container's log is kept on the disk. */
export interface LogLimits {
  /** Size at which a file is full and the next one begins, bytes. An entry is never split. */
  readonly maxFileBytes: number;
  /** How many files are kept, with the one that is being written; 2 or more. */
  readonly maxFiles: number;
}

/** The kubelet's defaults of `containerLogMaxSize` and `containerLogMaxFiles`. */
export const defaultLogLimits: LogLimits = { maxFileBytes: 10 * 1024 * 1024, maxFiles: 5 };

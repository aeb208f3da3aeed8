/** How much of a container's log is kept on the disk. */
export interface LogLimits {
  /** Size at which a file counts as full, bytes. The next file starts when the agent notices it. An entry is never split. */
  readonly maxFileBytes: number;
  /** Number of files to keep, including the one being written, 2 or more. */
  readonly maxFiles: number;
}

/**
 * Size at which conmon switches to the next file by itself, bytes: the total size of all kept files. conmon does not wait for
 * the agent, and its second switch would overwrite the first file. So the agent has as much time as it takes to write this many
 * bytes.
 */
export function largestFileBytes({ maxFileBytes, maxFiles }: LogLimits): number {
  return maxFileBytes * maxFiles;
}

/** The kubelet's defaults for `containerLogMaxSize` and `containerLogMaxFiles`. */
export const defaultLogLimits: LogLimits = { maxFileBytes: 10 * 1024 * 1024, maxFiles: 5 };

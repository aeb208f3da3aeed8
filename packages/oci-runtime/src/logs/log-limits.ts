/** How much of a container's log is kept on the disk. */
export interface LogLimits {
  /** Size at which a file is full and the next one begins with the agent's next look, bytes. An entry is never split. */
  readonly maxFileBytes: number;
  /** How many files are kept, with the one that is being written; 2 or more. */
  readonly maxFiles: number;
}

/**
 * Size at which conmon goes on to the next file by itself, bytes: as much as is kept at all. It waits for no agent, and what it writes
 * to the second file after that takes the first one's place. So an agent has the time that so much takes to be written.
 */
export function largestFileBytes({ maxFileBytes, maxFiles }: LogLimits): number {
  return maxFileBytes * maxFiles;
}

/** The kubelet's defaults of `containerLogMaxSize` and `containerLogMaxFiles`. */
export const defaultLogLimits: LogLimits = { maxFileBytes: 10 * 1024 * 1024, maxFiles: 5 };

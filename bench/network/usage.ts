/** CPU time and memory of a process, as the process reports them. */
export interface Usage {
  readonly cpuMs: number;
  readonly heapMB: number;
  readonly rssMB: number;
}

/** Responds to each message from the parent with the process's usage. Needs --expose-gc. */
export function answerUsage(): void {
  process.on("message", () => process.send?.(usage()));
  process.once("disconnect", () => process.exit());
}

function usage(): Usage {
  const { user, system } = process.cpuUsage();
  globalThis.gc?.();
  const { heapUsed, external, rss } = process.memoryUsage();
  return { cpuMs: (user + system) / 1000, heapMB: (heapUsed + external) / 1e6, rssMB: rss / 1e6 };
}

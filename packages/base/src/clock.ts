/** Where time comes from. Code that waits takes a clock, so that a test can own time. */
export interface Clock {
  /** Milliseconds since the Unix epoch. May step. */
  now(): number;
  /** Milliseconds of a clock that never steps. */
  monotonic(): number;
  /**
   * Resolves after `ms` milliseconds (0 or more).
   * @throws the signal's reason, as soon as the signal aborts
   */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** The machine's own clock. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep: async (ms, signal) => {
    let rest = ms;
    for (; rest > longestTimerMs; rest -= longestTimerMs) await pause(longestTimerMs, signal);
    await pause(rest, signal);
  },
};

/** What fits into the 32 bits of a timer: 24 days. Longer ones end at once. */
const longestTimerMs = 2 ** 31 - 1;

async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted();
  await new Promise<void>((resolve, reject) => {
    const onAbort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason instanceof Error ? signal.reason : new Error("Aborted"));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}

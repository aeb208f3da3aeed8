/** A source of time. Code that waits takes a clock, so that a test can control time. */
export interface Clock {
  /** Milliseconds since the Unix epoch. May jump forwards or backwards. */
  now(): number;
  /** Milliseconds of a clock that never jumps. */
  monotonic(): number;
  /**
   * Resolves after `ms` milliseconds (0 or more).
   * @throws the signal's reason, as soon as the signal aborts
   */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** The clock of this machine. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep: async (ms, signal) => {
    let rest = ms;
    for (; rest > longestTimerMs; rest -= longestTimerMs) await pause(longestTimerMs, signal);
    await pause(rest, signal);
  },
};

/** The largest delay that fits into a 32-bit timer, about 24 days. Node ends longer ones at once. */
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

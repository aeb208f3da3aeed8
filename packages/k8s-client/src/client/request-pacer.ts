import type { Clock } from "@kip/base";

/** A function that waits until the next request may go, so that at most `qps` go per second. */
export function requestPacer(
  clock: Clock,
  qps: number | undefined,
): (signal: AbortSignal) => Promise<void> {
  if (qps === undefined) return () => Promise.resolve();
  const spacingMs = 1000 / qps;
  let nextAt = 0;
  return async (signal) => {
    const now = clock.monotonic();
    // A burst of one second's worth is let through after an idle time.
    nextAt = Math.max(nextAt + spacingMs, now - 1000 + spacingMs);
    if (nextAt > now) await clock.sleep(nextAt - now, signal);
  };
}

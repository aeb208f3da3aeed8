import type { Clock } from "../clock.ts";

/**
 * Waits for a time or for the signal, whichever comes first. Never throws. Use `clock.sleep` where an abort should also end the
 * caller.
 *
 * @param ms milliseconds, 0 or more. Infinity waits for the signal alone
 * @returns true if the time has passed, false if the signal aborted first
 */
export async function pause(ms: number, clock: Clock, signal: AbortSignal): Promise<boolean> {
  if (signal.aborted) return false;
  if (ms === Number.POSITIVE_INFINITY) {
    await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
    return false;
  }
  return await clock.sleep(ms, signal).then(
    () => true,
    () => false,
  );
}

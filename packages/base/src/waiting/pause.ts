import type { Clock } from "../clock.ts";

/**
 * Waits for a time or for the signal, whichever is first, and never throws. Use `clock.sleep` where an abort should end the
 * caller, too.
 *
 * @param ms milliseconds, 0 or more; infinite waits for the signal alone
 * @returns whether the time has passed, false if the signal aborted first
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

const initialMs = 10_000;
/** Longest pause before something is tried again, milliseconds. */
export const longestPauseMs = 300_000;

/** The back-off of a container that ends repeatedly. */
export interface CrashBackoff {
  /** The delay after the next end, milliseconds. */
  readonly delayMs: number;
  readonly updatedAtMs: number;
}

/** How long to wait before pulling an image again, by number of failures. */
export function failureDelayMs(failures: number): number {
  return Math.min(longestPauseMs, initialMs * 2 ** Math.min(failures - 1, 10));
}

/**
 * Counts an end of a container, and returns the delay before its next start, as in the kubelet: none after the first end, then
 * 10 s, doubling to 5 min. Forgotten after 10 min without an end.
 *
 * @param sinceMs the end since which the delay counts, milliseconds since the Unix epoch. If it was longer ago than the delay,
 * there is no delay. @default this end, as for a container that ended by itself
 */
export function countCrash(
  last: CrashBackoff | undefined,
  nowMs: number,
  sinceMs: number = nowMs,
): { readonly delayMs: number; readonly backoff: CrashBackoff } {
  if (!last || nowMs - last.updatedAtMs > 2 * longestPauseMs)
    return { delayMs: 0, backoff: { delayMs: initialMs, updatedAtMs: nowMs } };
  const delayMs = nowMs - sinceMs < last.delayMs ? last.delayMs : 0;
  const nextMs = Math.min(longestPauseMs, last.delayMs * 2);
  return { delayMs, backoff: { delayMs: nextMs, updatedAtMs: nowMs + delayMs } };
}

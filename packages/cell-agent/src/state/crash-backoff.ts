const initialMs = 10_000;
const maxMs = 300_000;

/** The back-off of a container that ends again and again. */
export interface CrashBackoff {
  /** What the next end costs, milliseconds. */
  readonly delayMs: number;
  readonly updatedAtMs: number;
}

/** How long an image that could not be had is left alone, by number of failures. */
export function failureDelayMs(failures: number): number {
  return Math.min(maxMs, initialMs * 2 ** Math.min(failures - 1, 10));
}

/**
 * Counts an end of a container and gives the delay before its next start, as the kubelet has it:
 * none after the first, then 10 s, doubling to 5 min; forgotten after 10 min without an end.
 *
 * @param sinceMs the end that the container must have left behind for the delay so as not to be held back, milliseconds since the
 * epoch. @default this one, as of a container that ended by itself
 */
export function countCrash(
  last: CrashBackoff | undefined,
  nowMs: number,
  sinceMs: number = nowMs,
): { readonly delayMs: number; readonly backoff: CrashBackoff } {
  if (!last || nowMs - last.updatedAtMs > 2 * maxMs)
    return { delayMs: 0, backoff: { delayMs: initialMs, updatedAtMs: nowMs } };
  const delayMs = nowMs - sinceMs < last.delayMs ? last.delayMs : 0;
  const nextMs = Math.min(maxMs, last.delayMs * 2);
  return { delayMs, backoff: { delayMs: nextMs, updatedAtMs: nowMs + delayMs } };
}

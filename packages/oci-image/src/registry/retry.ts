import { backoffDelay, isRetryable, type Clock } from "@kip/base";

/** How often and how patiently a registry is asked again. */
export interface RetryOptions {
  readonly clock: Clock;
  /** Times a request is made in all, 1 or more. @default 4 */
  readonly attempts?: number | undefined;
}

const backoff = { initialMs: 250, maxMs: 8000 };
/** A registry that wants a longer pause is left to the caller, milliseconds. */
const longestPauseMs = 10_000;

/**
 * Repeats `work` while its failures are passing ones (fact `retryable`) and attempts are left; a
 * registry that says when to come back (`Retry-After`) is obeyed.
 */
export async function withRetries<T>(
  work: () => Promise<T>,
  options: RetryOptions & { readonly signal?: AbortSignal | undefined },
): Promise<T> {
  const attempts = options.attempts ?? 4;
  for (let attempt = 0; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      options.signal?.throwIfAborted();
      const pause = attempt + 1 < attempts ? pauseAfter(error, attempt) : undefined;
      if (pause === undefined) throw error;
      await options.clock.sleep(pause, options.signal);
    }
  }
}

/** Milliseconds to wait; undefined if it would not help. */
function pauseAfter(error: unknown, attempt: number): number | undefined {
  if (!isRetryable(error)) return undefined;
  const delay = backoffDelay(attempt, backoff, error);
  return delay > longestPauseMs ? undefined : delay;
}

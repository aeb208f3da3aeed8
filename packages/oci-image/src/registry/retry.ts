import { backoffDelay, isRetryable, type Clock } from "@kip/base";

/** How often and with what delays requests are repeated. */
export interface RetryOptions {
  readonly clock: Clock;
  /** Number of attempts, 1 or more. @default 4 */
  readonly attempts?: number | undefined;
}

const backoff = { initialMs: 250, maxMs: 8000 };
/** Longest pause, milliseconds. If a registry wants a longer one, the error goes to the caller. */
const longestPauseMs = 10_000;

/** Repeats `work` while its errors are retryable and attempts are left. Respects a registry's delay (`Retry-After`). */
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

/** Milliseconds to wait. Undefined if another attempt would not help. */
function pauseAfter(error: unknown, attempt: number): number | undefined {
  if (!isRetryable(error)) return undefined;
  const delay = backoffDelay(attempt, backoff, error);
  return delay > longestPauseMs ? undefined : delay;
}

import { backoffDelay, isRetryable, type Clock } from "@kip/base";
import type { ApiClient } from "@kip/k8s-client";

const attempts = 3;
const backoff = { initialMs: 250, maxMs: 1000 };
const timeoutMs = 10_000;

/**
 * Longest pause that is respected, milliseconds. If the server requests a longer one, there is no retry, because a client is
 * waiting.
 */
const longestPauseMs = 10_000;

/**
 * Creates a review at the API server and returns its result. If the server is unreachable, retries after the pause that the
 * server requests.
 */
export async function createReview<T>(
  { client, clock }: { readonly client: ApiClient; readonly clock: Clock },
  path: string,
  review: unknown,
): Promise<T> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await client.create<T>(path, review, { timeoutMs, isUrgent: true });
    } catch (error) {
      if (!isRetryable(error) || attempt + 1 >= attempts) throw error;
      const pauseMs = backoffDelay(attempt, backoff, error);
      if (pauseMs > longestPauseMs) throw error;
      await clock.sleep(pauseMs);
    }
  }
}

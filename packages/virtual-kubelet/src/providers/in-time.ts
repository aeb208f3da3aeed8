import type { Clock } from "@kip/base";

/**
 * What a provider answers.
 *
 * @param limitMs how long it has, milliseconds
 * @throws what the provider throws; an error that says so if it does not answer in time, or the
 *   signal's reason
 */
export async function inTime<T>(
  answer: Promise<T>,
  { clock, limitMs, signal }: { clock: Clock; limitMs: number; signal?: AbortSignal },
): Promise<T> {
  const answered = new AbortController();
  const late = clock
    .sleep(limitMs, AbortSignal.any([answered.signal, ...(signal ? [signal] : [])]))
    .then(() => {
      throw new Error(`The provider did not answer within ${limitMs / 1000} s`);
    });
  try {
    return await Promise.race([answer, late]);
  } finally {
    answered.abort();
    late.catch(() => {}); // the answer was first
  }
}

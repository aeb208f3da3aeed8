import type { Clock } from "../clock.ts";
import { untilAborted } from "./until-aborted.ts";

/** Options of {@link withTimeout}. */
export interface TimeoutOptions {
  /** Milliseconds, 0 or more. */
  readonly limitMs: number;
  readonly clock: Clock;
  /** The caller's own signal. It also ends the wait. */
  readonly signal?: AbortSignal | undefined;
  /** Makes the error for a call that took too long. @default a `TimeoutError` that names the limit */
  readonly error?: (() => Error) | undefined;
}

/** Abort reason of unused timers, created once: an error with a stack trace for each call would cost more than the call. */
const timerCancelled = new DOMException("Ended in time", "AbortError");

/**
 * Runs `work` with a time limit. Its signal aborts when the time is over or when the caller's signal aborts, but never after
 * this function has returned. Work that ignores its signal continues, but is no longer waited for.
 *
 * @throws what `work` throws; the timeout's error; the reason of the caller's signal
 */
export async function withTimeout<T>(
  work: (signal: AbortSignal) => Promise<T>,
  options: TimeoutOptions,
): Promise<T> {
  const { limitMs, clock, signal, error } = options;
  signal?.throwIfAborted();
  const limit = new AbortController();
  const timer = new AbortController();
  const onAbort = (): void => limit.abort(signal?.reason);
  signal?.addEventListener("abort", onAbort, { once: true });
  clock.sleep(limitMs, timer.signal).then(
    () => limit.abort(error?.() ?? timeoutError(limitMs)),
    () => {}, // ended in time
  );
  try {
    return await untilAborted(work(limit.signal), limit.signal);
  } finally {
    timer.abort(timerCancelled);
    signal?.removeEventListener("abort", onAbort);
    limit.abort(timerCancelled);
  }
}

function timeoutError(limitMs: number): Error {
  return new DOMException(`No result within ${limitMs / 1000} s`, "TimeoutError");
}

import type { Clock } from "@kip/base";

/** A signal that aborts after a time, or with another signal; must be ended. */
export interface TimeLimit {
  readonly signal: AbortSignal;
  /** Removes the timer and the listener. */
  end(): void;
}

/** Why a timer ends early. One for all: an error for each request costs more than the timer. */
const timerCancelled = new Error("Answered in time");

/**
 * Joins a time limit and the caller's signal. Unlike `AbortSignal.timeout` and `AbortSignal.any`,
 * nothing of it outlives the request: thousands of short requests would each leave a timer behind.
 */
export function timeLimit(
  timeoutMs: number,
  outer: AbortSignal | undefined,
  clock: Clock,
): TimeLimit {
  const controller = new AbortController();
  const onAbort = (): void => controller.abort(outer?.reason);
  const timer = new AbortController();
  clock.sleep(timeoutMs, timer.signal).then(
    () => controller.abort(new DOMException("The server did not answer in time", "TimeoutError")),
    () => {}, // ended in time
  );
  if (outer?.aborted === true) onAbort();
  outer?.addEventListener("abort", onAbort, { once: true });
  return {
    signal: controller.signal,
    end: () => {
      timer.abort(timerCancelled);
      outer?.removeEventListener("abort", onAbort);
    },
  };
}

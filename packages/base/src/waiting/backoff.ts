import { isCodedError } from "../coded-error.ts";

/** Shape of an exponential back-off. */
export interface BackoffOptions {
  /** First delay, milliseconds, above 0. */
  readonly initialMs: number;
  /** Longest delay, milliseconds. */
  readonly maxMs: number;
  /** Growth per attempt, 1 or more. @default 2 */
  readonly factor?: number;
  /** Random share subtracted from each delay, 0 to 1. @default 0.2 */
  readonly jitter?: number;
}

/**
 * Delay in milliseconds before attempt `attempt` (0 is the first repetition).
 *
 * @param error the failure. If it names a delay (`retryAfterMs`), that is respected
 */
export function backoffDelay(attempt: number, options: BackoffOptions, error?: unknown): number {
  const factor = options.factor ?? 2;
  const plain = Math.min(options.maxMs, options.initialMs * factor ** Math.min(attempt, 64));
  const delay = plain * (1 - (options.jitter ?? 0.2) * Math.random());
  const asked = isCodedError(error) ? error.retryAfterMs : undefined;
  return Math.max(delay, asked ?? 0);
}

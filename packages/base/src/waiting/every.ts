import type { Clock } from "../clock.ts";
import type { Logger } from "../logger.ts";
import { pause } from "./pause.ts";

/** Options of {@link every}. */
export interface EveryOptions {
  /** Milliseconds between the end of one run and the start of the next; a function is asked each time. */
  readonly intervalMs: number | (() => number);
  /** Whether the first run comes at once. @default true */
  readonly isImmediate?: boolean | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Completes the sentence "Could not …" in the log. */
  readonly what: string;
  /** Ends the repetition, and the pause in it; a run is passed this signal and may end early. */
  readonly signal: AbortSignal;
}

/**
 * Repeats `work` until the signal aborts; one run at a time. A run that fails is logged and does not end the repetition.
 * Resolves when the last run has ended; never throws.
 */
export async function every(
  options: EveryOptions,
  work: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const { intervalMs, isImmediate = true, clock, logger, what, signal } = options;
  const interval = typeof intervalMs === "number" ? (): number => intervalMs : intervalMs;
  if (!isImmediate) await pause(interval(), clock, signal);
  while (!signal.aborted) {
    try {
      await work(signal);
    } catch (err) {
      if (!signal.aborted) logger.warn(`Could not ${what}`, { err });
    }
    await pause(interval(), clock, signal);
  }
}

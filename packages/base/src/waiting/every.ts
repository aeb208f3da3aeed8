import type { Clock } from "../clock.ts";
import type { Logger } from "../logger.ts";
import { pause } from "./pause.ts";

/** Options of {@link every}. */
export interface EveryOptions {
  /** Milliseconds between the end of one run and the start of the next. A function is called each time. */
  readonly intervalMs: number | (() => number);
  /** Whether the first run starts at once. @default true */
  readonly isImmediate?: boolean | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Completes the sentence "Could not …" in the log. */
  readonly what: string;
  /** Ends the repetition and any pause. Each run gets this signal, and may end early. */
  readonly signal: AbortSignal;
}

/**
 * Repeats `work` until the signal aborts, one run at a time. A failed run is logged and does not end the repetition. Resolves
 * when the last run has ended. Never throws.
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

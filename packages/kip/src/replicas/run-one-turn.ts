import { pause } from "@kip/base";
import { runInTurns, type RunInTurnsOptions, type TurnParts } from "./run-in-turns.ts";

/** Options of {@link runOneTurn}. */
export interface RunOneTurnOptions extends Omit<RunInTurnsOptions, "run"> {
  /** How long to wait for the turn, milliseconds. */
  readonly limitMs: number;
}

/**
 * Does some work in the turn of a node: no kip runs the node meanwhile that takes turns itself.
 *
 * @returns what the work returns; undefined if the turn was not to be had in time, or the signal aborted before it
 * @throws what the work throws in its turn
 */
export async function runOneTurn<T>(
  { limitMs, ...options }: RunOneTurnOptions,
  work: (parts: TurnParts) => Promise<T>,
): Promise<T | undefined> {
  const [stop, begun] = [new AbortController(), new AbortController()];
  const waiting = AbortSignal.any([options.signal, begun.signal]);
  void pause(limitMs, options.clock, waiting).then(() => {
    if (!waiting.aborted) stop.abort();
  });
  let result: T | undefined;
  try {
    await runInTurns({
      ...options,
      signal: AbortSignal.any([options.signal, stop.signal]),
      run: async (parts) => {
        begun.abort();
        result = await work(parts);
        stop.abort();
      },
    });
  } finally {
    begun.abort();
  }
  return result;
}

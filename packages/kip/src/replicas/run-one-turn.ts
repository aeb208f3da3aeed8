import { pause } from "@kip/base";
import { runInTurns, type RunInTurnsOptions, type TurnParts } from "./run-in-turns.ts";

/** Options of {@link runOneTurn}. */
export interface RunOneTurnOptions extends Omit<RunInTurnsOptions, "run"> {
  /** How long to wait for the turn, and again for another one if it is lost, milliseconds. */
  readonly limitMs: number;
}

/**
 * Does some work in the turn of a node: no kip runs the node meanwhile that takes turns itself. Work that fails because the turn
 * is lost is done again in the next one.
 *
 * @returns what the work returns; undefined if a turn was not to be had in time, or the signal aborted before it
 * @throws what the work throws in its turn
 */
export async function runOneTurn<T>(
  { limitMs, ...options }: RunOneTurnOptions,
  work: (parts: TurnParts) => Promise<T>,
): Promise<T | undefined> {
  const stop = new AbortController();
  const signal = AbortSignal.any([options.signal, stop.signal]);
  /** @returns what ends the wait */
  const limitWait = (): AbortController => {
    const begun = new AbortController();
    const wait = pause(limitMs, options.clock, AbortSignal.any([signal, begun.signal]));
    void wait.then((isOver) => {
      if (isOver && !begun.signal.aborted) stop.abort();
    });
    return begun;
  };
  let waiting = limitWait();
  let result: T | undefined;
  try {
    await runInTurns({
      ...options,
      signal,
      run: async (parts) => {
        waiting.abort();
        try {
          result = await work(parts);
          stop.abort();
        } finally {
          waiting = limitWait();
        }
      },
    });
  } finally {
    stop.abort();
  }
  return result;
}

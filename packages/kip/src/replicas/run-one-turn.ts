import { pause } from "@kip/base";
import { runInTurns, type RunInTurnsOptions, type TurnParts } from "./run-in-turns.ts";

/** Options of {@link runOneTurn}. */
export interface RunOneTurnOptions extends Omit<RunInTurnsOptions, "run"> {
  /** How long to wait for the turn, and again for another turn if it is lost, milliseconds. */
  readonly limitMs: number;
}

/**
 * Runs work in a node's turn, so that no kip that takes turns runs the node at the same time. Work that fails because the turn
 * is lost is repeated in the next turn.
 *
 * @returns the result of the work; undefined if there was no turn in time, or the signal aborted first
 * @throws errors of the work in its turn
 */
export async function runOneTurn<T>(
  { limitMs, ...options }: RunOneTurnOptions,
  work: (parts: TurnParts) => Promise<T>,
): Promise<T | undefined> {
  const stop = new AbortController();
  const signal = AbortSignal.any([options.signal, stop.signal]);
  /** @returns a controller that ends the wait */
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

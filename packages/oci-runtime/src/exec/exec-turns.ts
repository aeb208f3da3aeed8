import { pause, SerialQueue, type Clock } from "@kip/base";

/** Most commands that may be starting at the same time. */
const mostAtOnce = 4;

/** Longest time that a command which does not start delays others, milliseconds. */
const longestMs = 10_000;

/**
 * Limits how many commands may be starting at the same time. Starting one needs most of a processor. If a hundred started at
 * once, the agent could not run, and kip would consider the cell lost. The number of running commands is not limited.
 */
export class ExecTurns {
  readonly #clock: Clock;
  readonly #queue = new SerialQueue();
  #count = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Waits for a turn. Calls are distributed over several slots, and those of one slot get their turns in order.
   *
   * @returns a disposable that ends the turn, which also ends by itself after 10 s
   * @throws the signal's reason if it aborts while waiting
   */
  async enter(signal: AbortSignal): Promise<Disposable> {
    const entered = Promise.withResolvers<void>();
    const over = new AbortController();
    const hold = async (): Promise<void> => {
      entered.resolve();
      await pause(longestMs, this.#clock, over.signal);
    };
    const slot = String(this.#count++ % mostAtOnce);
    this.#queue.run(hold, slot, signal).catch((error: unknown) => entered.reject(error));
    await entered.promise;
    return { [Symbol.dispose]: () => over.abort() };
  }
}

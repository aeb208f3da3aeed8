import { pause, SerialQueue, type Clock } from "@kip/base";

/** Most commands that begin at the same time. */
const mostAtOnce = 4;

/** Longest time that a command which does not begin keeps others waiting, milliseconds. */
const longestMs = 10_000;

/**
 * Lets few commands begin at the same time. To begin one takes most of a processor, and a hundred at once would leave nothing of it to the
 * agent, whose silence kip takes for the end of the cell. How many run is not limited.
 */
export class ExecTurns {
  readonly #clock: Clock;
  readonly #queue = new SerialQueue();
  #count = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Waits for a turn, in the order of the calls as far as they share one of the places.
   *
   * @returns disposing of it ends the turn, which ends by itself after 10 s
   * @throws the signal's reason if it aborts meanwhile
   */
  async enter(signal: AbortSignal): Promise<Disposable> {
    const entered = Promise.withResolvers<void>();
    const over = new AbortController();
    const hold = async (): Promise<void> => {
      entered.resolve();
      await pause(longestMs, this.#clock, over.signal);
    };
    const place = String(this.#count++ % mostAtOnce);
    this.#queue.run(hold, place, signal).catch((error: unknown) => entered.reject(error));
    await entered.promise;
    return { [Symbol.dispose]: () => over.abort() };
  }
}

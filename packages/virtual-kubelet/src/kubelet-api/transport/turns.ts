/** How long all streams together may go on within one turn of the event loop, milliseconds. */
const turnMs = 5;

/**
 * Bounds how long the streams of a server keep the event loop from everything else. A client may send a million frames that
 * each take a few microseconds: with a hundred such clients a turn of the loop would take seconds. Streams go on at once while
 * the turn has time left; else each waits for a turn, in the order in which they ask.
 */
export class Turns {
  readonly #waiting: (() => void)[] = [];
  /** When the turn began, monotonic milliseconds; undefined before a stream asks in it. */
  #beganAt: number | undefined;

  /** To be asked between two pieces of work. @returns undefined to go on, else a promise that resolves in a later turn */
  pass(): Promise<void> | undefined {
    const now = performance.now();
    if (now - (this.#beganAt ?? this.#begin(now)) < turnMs) return undefined;
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  #begin(now: number): number {
    this.#beganAt = now;
    setImmediate(() => {
      this.#beganAt = undefined;
      const next = this.#waiting.shift();
      if (!next) return;
      this.#begin(performance.now());
      next();
    });
    return now;
  }
}

/** How long all streams together may work within one turn of the event loop, milliseconds. */
const turnMs = 5;

/**
 * Limits how long the streams of a server block the event loop. A client may send a million frames that each take a few
 * microseconds. With a hundred such clients, a turn of the event loop would take seconds. Streams continue at once while the
 * current turn has time left. Otherwise each waits for a later turn, in the order of the calls.
 */
export class Turns {
  readonly #waiting: (() => void)[] = [];
  /** When the turn began, monotonic milliseconds. Undefined before the first call in a turn. */
  #beganAt: number | undefined;

  /** Call this between two pieces of work. @returns undefined to continue, or a promise that resolves in a later turn */
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

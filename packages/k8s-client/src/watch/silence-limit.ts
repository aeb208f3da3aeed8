import type { Readable } from "node:stream";
import { pause, type Clock } from "@kip/base";

/** A connection without data for this long is dead, because bookmarks come every minute. Milliseconds. */
const silenceMs = 180_000;

/**
 * Destroys watch bodies whose server has sent nothing for three minutes. All watches of a clock share one timer. With thousands
 * of watches, separate timers and their signals would take a third of the memory.
 */
export class SilenceLimit {
  readonly #clock: Clock;
  /** When each body last received data, the longest silent one first. */
  readonly #heardAt = new Map<Readable, number>();
  #stop: AbortController | undefined;

  private constructor(clock: Clock) {
    this.#clock = clock;
  }

  static readonly #limits = new WeakMap<Clock, SilenceLimit>();

  static of(clock: Clock): SilenceLimit {
    const limit = this.#limits.get(clock) ?? new SilenceLimit(clock);
    this.#limits.set(clock, limit);
    return limit;
  }

  /** Restarts the body's time limit, which lasts until the body closes. */
  heard(body: Readable): void {
    if (body.closed) return;
    if (!this.#heardAt.delete(body)) body.once("close", () => this.#forget(body));
    this.#heardAt.set(body, this.#clock.monotonic());
    if (!this.#stop) void this.#destroySilent((this.#stop = new AbortController()).signal);
  }

  #forget(body: Readable): void {
    this.#heardAt.delete(body);
    if (this.#heardAt.size > 0) return;
    this.#stop?.abort();
    this.#stop = undefined;
  }

  async #destroySilent(signal: AbortSignal): Promise<void> {
    while (await pause(this.#rest(), this.#clock, signal))
      for (const body of this.#heardAt.keys()) {
        if (this.#rest() > 0) break;
        this.#heardAt.delete(body);
        this.#heardAt.set(body, this.#clock.monotonic()); // its close takes a moment
        body.destroy(new Error(`The server sent nothing for ${silenceMs / 1000} s`));
      }
  }

  /** Milliseconds until the first body exceeds the limit. */
  #rest(): number {
    const [longest = this.#clock.monotonic()] = this.#heardAt.values();
    return Math.max(0, longest + silenceMs - this.#clock.monotonic());
  }
}

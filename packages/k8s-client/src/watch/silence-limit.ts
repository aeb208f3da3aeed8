import type { Readable } from "node:stream";
import { pause, type Clock } from "@kip/base";

/** A connection without a byte for this long is dead: bookmarks come every minute. */
const silenceMs = 180_000;

/**
 * Destroys the bodies of watches whose server sends nothing for three minutes. There is one timer for all that use a clock: with thousands of
 * watches, a timer for each and the signal that ends it are a third of their memory.
 */
export class SilenceLimit {
  readonly #clock: Clock;
  /** When each was heard last, the longest silent one first. */
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

  /** Counts from now, until the body is closed. */
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

  /** Milliseconds until the first has been silent for too long. */
  #rest(): number {
    const [longest = this.#clock.monotonic()] = this.#heardAt.values();
    return Math.max(0, longest + silenceMs - this.#clock.monotonic());
  }
}

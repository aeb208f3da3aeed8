import { setImmediate } from "node:timers/promises";
import type { Clock } from "@kip/base";

/** A clock that never waits. Sleeping advances the clock and yields to the event loop once. */
export class EagerClock implements Clock {
  /** The duration of each sleep, milliseconds. */
  readonly pauses: number[] = [];
  readonly #startMs: number;
  readonly #lookMs: number;
  #passedMs = 0;

  /**
   * @param options.nowMs time of day at the start, milliseconds since the Unix epoch @default 2030
   * @param options.lookMs how far each call of `monotonic` advances the clock, milliseconds @default 0
   */
  constructor({ nowMs = Date.UTC(2030, 0, 1), lookMs = 0 } = {}) {
    this.#startMs = nowMs;
    this.#lookMs = lookMs;
  }

  now(): number {
    return this.#startMs + this.#passedMs;
  }

  monotonic(): number {
    this.#passedMs += this.#lookMs;
    return this.#passedMs;
  }

  async sleep(ms: number, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    await setImmediate();
    signal?.throwIfAborted();
    this.pauses.push(ms);
    this.#passedMs += ms;
  }
}

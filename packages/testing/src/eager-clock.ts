import { setImmediate } from "node:timers/promises";
import type { Clock } from "@kip/base";

/** A clock that never waits: sleeping moves it on and takes a turn of the event loop. */
export class EagerClock implements Clock {
  /** What was slept, milliseconds each. */
  readonly pauses: number[] = [];
  readonly #startMs: number;
  readonly #lookMs: number;
  #passedMs = 0;

  /**
   * @param options.nowMs time of day at the start, milliseconds since the Unix epoch @default 2030
   * @param options.lookMs how long each call of `monotonic` takes, milliseconds @default 0
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

import { backoffDelay, type Clock } from "@kip/base";

/** Pauses before a lost cell is replaced, milliseconds. */
const backoff = { initialMs: 1000, maxMs: 300_000 };

/** Pauses of pools whose cells cannot be started, or are lost repeatedly. */
export class PoolPauses {
  readonly #clock: Clock;
  /** By the pool's key; `untilMs` is monotonic. */
  readonly #losses = new Map<string, { readonly count: number; readonly untilMs: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** A cell of the pool was lost, or could not be started. */
  lost(key: string): void {
    const count = (this.#losses.get(key)?.count ?? 0) + 1;
    const untilMs = this.#clock.monotonic() + backoffDelay(count - 1, backoff);
    this.#losses.set(key, { count, untilMs });
  }

  /** A cell of the pool was of use. */
  end(key: string): void {
    this.#losses.delete(key);
  }

  /** All pools begin again. */
  clear(): void {
    this.#losses.clear();
  }

  /** For how long no cell of the pool is created, milliseconds; 0 or less if it may be now. */
  leftMs(key: string): number {
    return (this.#losses.get(key)?.untilMs ?? 0) - this.#clock.monotonic();
  }
}

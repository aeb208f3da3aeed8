import { backoffDelay, type Clock } from "@kip/base";

/** Pauses before a lost cell is replaced, milliseconds. */
const backoff = { initialMs: 1000, maxMs: 300_000 };

/** Pauses of pools whose cells cannot be started or are lost repeatedly. */
export class PoolPauses {
  readonly #clock: Clock;
  /** By pool key. `untilMs` is monotonic. */
  readonly #losses = new Map<string, { readonly count: number; readonly untilMs: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Call this when a cell of the pool was lost or could not be started. */
  lost(key: string): void {
    const count = (this.#losses.get(key)?.count ?? 0) + 1;
    const untilMs = this.#clock.monotonic() + backoffDelay(count - 1, backoff);
    this.#losses.set(key, { count, untilMs });
  }

  /** Call this when a cell of the pool was used. It ends the pool's pause. */
  end(key: string): void {
    this.#losses.delete(key);
  }

  /** Ends the pauses of all pools. */
  clear(): void {
    this.#losses.clear();
  }

  /** How long no cell of the pool may be created, milliseconds. 0 or less means now. */
  leftMs(key: string): number {
    return (this.#losses.get(key)?.untilMs ?? 0) - this.#clock.monotonic();
  }
}

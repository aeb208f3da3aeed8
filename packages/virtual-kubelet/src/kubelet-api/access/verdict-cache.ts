import type { Clock } from "@kip/base";

/** How long a kind of verdict is kept, and how many of it. */
export interface VerdictBounds {
  /** Milliseconds; 0 keeps none. */
  readonly keepMs: number;
  readonly entries: number;
}

interface Kept<T> {
  readonly verdict: T;
  readonly until: number;
}

/**
 * Caches the API server's verdict on a key for some time, positive and negative verdicts apart, so that many refused
 * keys cannot push out the accepted ones. Equal questions at the same moment are asked once; a question that fails is
 * not cached.
 */
export class VerdictCache<T> {
  readonly #clock: Clock;
  readonly #isGood: (verdict: T) => boolean;
  readonly #bounds: { readonly good: VerdictBounds; readonly bad: VerdictBounds };
  readonly #good = new Map<string, Kept<T>>();
  readonly #bad = new Map<string, Kept<T>>();
  readonly #asked = new Map<string, Promise<T>>();

  constructor(
    clock: Clock,
    isGood: (verdict: T) => boolean,
    bounds: { readonly good: VerdictBounds; readonly bad: VerdictBounds },
  ) {
    this.#clock = clock;
    this.#isGood = isGood;
    this.#bounds = bounds;
  }

  /** Questions that are under way. */
  get asking(): number {
    return this.#asked.size;
  }

  /** The verdict on a key: the cached one, else the answer of `ask`. @throws what `ask` throws */
  async get(key: string, ask: () => Promise<T>): Promise<T> {
    const kept = this.#kept(this.#good, key) ?? this.#kept(this.#bad, key);
    if (kept) return kept.verdict;
    const underWay = this.#asked.get(key);
    if (underWay) return await underWay;
    const asked = ask();
    this.#asked.set(key, asked);
    try {
      const verdict = await asked;
      this.#keep(key, verdict);
      return verdict;
    } finally {
      this.#asked.delete(key);
    }
  }

  #kept(map: Map<string, Kept<T>>, key: string): Kept<T> | undefined {
    const kept = map.get(key);
    if (kept === undefined || kept.until > this.#clock.monotonic()) return kept;
    map.delete(key);
    return undefined;
  }

  #keep(key: string, verdict: T): void {
    const isGood = this.#isGood(verdict);
    const { keepMs, entries } = isGood ? this.#bounds.good : this.#bounds.bad;
    if (keepMs <= 0) return;
    const map = isGood ? this.#good : this.#bad;
    map.set(key, { verdict, until: this.#clock.monotonic() + keepMs });
    const oldest = map.keys().next();
    if (map.size > entries && oldest.done !== true) map.delete(oldest.value);
  }
}

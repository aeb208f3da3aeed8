import type { Clock } from "@kip/base";

/** How long verdicts are cached, and how many. */
export interface VerdictBounds {
  /** Milliseconds. 0 disables the cache. */
  readonly keepMs: number;
  readonly entries: number;
}

interface CachedVerdict<T> {
  readonly verdict: T;
  readonly until: number;
}

/**
 * Caches the API server's verdicts by key for some time. Positive and negative verdicts are separate, so that many refused keys
 * cannot displace accepted ones. Concurrent equal questions are asked once. Failures are not cached.
 */
export class VerdictCache<T> {
  readonly #clock: Clock;
  readonly #isGood: (verdict: T) => boolean;
  readonly #bounds: { readonly good: VerdictBounds; readonly bad: VerdictBounds };
  readonly #good = new Map<string, CachedVerdict<T>>();
  readonly #bad = new Map<string, CachedVerdict<T>>();
  readonly #pending = new Map<string, Promise<T>>();

  constructor(
    clock: Clock,
    isGood: (verdict: T) => boolean,
    bounds: { readonly good: VerdictBounds; readonly bad: VerdictBounds },
  ) {
    this.#clock = clock;
    this.#isGood = isGood;
    this.#bounds = bounds;
  }

  /** Number of questions that are waiting for an answer. */
  get asking(): number {
    return this.#pending.size;
  }

  /** The verdict for a key: from the cache, or from `ask`. @throws errors of `ask` */
  async get(key: string, ask: () => Promise<T>): Promise<T> {
    const kept = this.#lookUp(this.#good, key) ?? this.#lookUp(this.#bad, key);
    if (kept) return kept.verdict;
    const underWay = this.#pending.get(key);
    if (underWay) return await underWay;
    const asked = ask();
    this.#pending.set(key, asked);
    try {
      const verdict = await asked;
      this.#keep(key, verdict);
      return verdict;
    } finally {
      this.#pending.delete(key);
    }
  }

  #lookUp(map: Map<string, CachedVerdict<T>>, key: string): CachedVerdict<T> | undefined {
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

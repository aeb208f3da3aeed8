import type { Clock } from "@kip/base";

/** Size of a burst of events per object, and how often one more is allowed. client-go uses the same figures. */
const burst = 25;
const refillMs = 300_000;
const maxObjects = 4096;

interface Bucket {
  tokens: number;
  at: number;
}

/** Prevents one object from flooding the API server with events. */
export class EventSpamFilter {
  readonly #clock: Clock;
  readonly #buckets = new Map<string, Bucket>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Whether one more event about this object may be written. */
  allow(object: string): boolean {
    const now = this.#clock.monotonic();
    const bucket = this.#buckets.get(object) ?? { tokens: burst, at: now };
    bucket.tokens = Math.min(burst, bucket.tokens + (now - bucket.at) / refillMs);
    bucket.at = now;
    this.#buckets.delete(object);
    this.#buckets.set(object, bucket);
    if (this.#buckets.size > maxObjects) {
      const [oldest] = this.#buckets.keys();
      if (oldest !== undefined) this.#buckets.delete(oldest);
    }
    if (bucket.tokens < 1) return false;
    bucket.tokens--;
    return true;
  }
}

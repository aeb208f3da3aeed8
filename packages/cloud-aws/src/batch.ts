import type { Clock } from "@kip/base";

/** Options of {@link Batch}. */
export interface BatchOptions<Key, Result> {
  /** How long the first caller waits for others, milliseconds. */
  readonly windowMs: number;
  /** Maximum number of keys in one call. */
  readonly limit: number;
  readonly clock: Clock;
  /** Calls with all keys. If it fails, all callers get the failure. */
  readonly run: (keys: readonly Key[]) => Promise<(key: Key) => Result>;
}

interface Gathering<Key, Result> {
  readonly keys: Set<Key>;
  readonly answer: Promise<(key: Key) => Result>;
}

/** Combines the calls of several callers at about the same time into one. A key that several callers ask for is sent once. */
export class Batch<Key, Result> {
  readonly #options: BatchOptions<Key, Result>;
  #open: Gathering<Key, Result> | undefined;

  constructor(options: BatchOptions<Key, Result>) {
    this.#options = options;
  }

  /** Result for one key. @throws the call's errors */
  async get(key: Key): Promise<Result> {
    const batch = this.#open ?? this.#begin();
    batch.keys.add(key);
    if (batch.keys.size >= this.#options.limit) this.#open = undefined;
    return (await batch.answer)(key);
  }

  #begin(): Gathering<Key, Result> {
    const { windowMs, clock, run } = this.#options;
    const keys = new Set<Key>();
    const answer = clock.sleep(windowMs).then(async () => {
      if (this.#open === batch) this.#open = undefined;
      return await run([...keys]);
    });
    const batch = { keys, answer };
    this.#open = batch;
    return batch;
  }
}

import type { Clock } from "@kip/base";

/** What {@link Batch} works with. */
export interface BatchOptions<Key, Result> {
  /** How long the first caller waits for others, milliseconds. */
  readonly windowMs: number;
  /** Most keys of one call. */
  readonly limit: number;
  readonly clock: Clock;
  /** One call for all keys; a failure is that of each of its callers. */
  readonly run: (keys: readonly Key[]) => Promise<(key: Key) => Result>;
}

interface Gathering<Key, Result> {
  readonly keys: Set<Key>;
  readonly answer: Promise<(key: Key) => Result>;
}

/** Makes one call of those of several callers who ask at about the same time; a key that is asked twice is sent once. */
export class Batch<Key, Result> {
  readonly #options: BatchOptions<Key, Result>;
  #open: Gathering<Key, Result> | undefined;

  constructor(options: BatchOptions<Key, Result>) {
    this.#options = options;
  }

  /** The answer for one key. @throws what the call throws */
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

import type { Clock } from "@kip/base";
import { collectGarbage } from "./collect-garbage.ts";

/** Fewer bytes leave little garbage. */
const leastBytes = 128 * 2 ** 10;
/** What comes without end is collected each time that it is so much. */
const bulkBytes = 2 ** 20;
/** A collection holds everything up for a moment, so it waits for a pause of this length. */
const pauseMs = 10_000;

/**
 * Collects garbage a while after much has been worked through: V8 would keep the memory for as much again, and the tables of a large cluster
 * come once. Ten thousand Services left 35 to 45 MB, where they themselves take 8 MB.
 */
export class GarbageOfBulk implements Disposable {
  readonly #clock: Clock;
  readonly #collect: () => void;
  readonly #ending = new AbortController();
  #bytes = 0;
  #isDue = false;

  /** @param collect @default {@link collectGarbage} */
  constructor(clock: Clock, collect: () => void = collectGarbage) {
    this.#clock = clock;
    this.#collect = collect;
  }

  /** Notes that so many bytes have been worked through. After 128 KiB it collects, in the next pause of 10 s, or 10 s after a MiB. */
  note(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes < leastBytes || this.#isDue) return;
    this.#isDue = true;
    void this.#collectLater();
  }

  [Symbol.dispose](): void {
    this.#ending.abort();
  }

  async #collectLater(): Promise<void> {
    const { signal } = this.#ending;
    let before: number;
    do {
      before = this.#bytes;
      await this.#clock.sleep(pauseMs, signal).catch(() => {});
      if (signal.aborted) return;
    } while (this.#bytes !== before && before < bulkBytes);
    this.#bytes = 0;
    this.#isDue = false;
    this.#collect();
  }
}

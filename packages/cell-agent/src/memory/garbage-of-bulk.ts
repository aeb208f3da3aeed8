import type { Clock } from "@kip/base";
import { collectGarbage } from "./collect-garbage.ts";

/** Fewer bytes leave little garbage. */
const bulkBytes = 2 ** 20;
/** More may come meanwhile, and a collection holds everything up for a moment. */
const delayMs = 10_000;

/**
 * Collects garbage a while after much has been worked through: V8 would keep the memory for as much again, and the tables of a large cluster
 * come once. Ten thousand Services left 35 to 45 MB, where they themselves take 8 MB.
 */
export class GarbageOfBulk implements Disposable {
  readonly #clock: Clock;
  readonly #collect: () => void;
  readonly #ending = new AbortController();
  #bytes = 0;

  /** @param collect @default {@link collectGarbage} */
  constructor(clock: Clock, collect: () => void = collectGarbage) {
    this.#clock = clock;
    this.#collect = collect;
  }

  /** Notes that so many bytes have been worked through. Collects 10 s after the first MiB of them. */
  note(bytes: number): void {
    const isDue = this.#bytes >= bulkBytes;
    this.#bytes += bytes;
    if (!isDue && this.#bytes >= bulkBytes) void this.#collectLater();
  }

  [Symbol.dispose](): void {
    this.#ending.abort();
  }

  async #collectLater(): Promise<void> {
    const { signal } = this.#ending;
    await this.#clock.sleep(delayMs, signal).catch(() => {});
    if (signal.aborted) return;
    this.#bytes = 0;
    this.#collect();
  }
}

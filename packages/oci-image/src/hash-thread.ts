import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";
import { localHashing, type Hashing, type StreamHash } from "./hashing.ts";
import { hashSlots, type HashResult, type HashSlots } from "./hash-worker.ts";

/** Below this size, a thread costs more than it saves. It costs some 15 ms and 8 MiB. */
const worthwhileBytes = 32 * 1024 * 1024;
/** The same size as the pieces of inflated layers. */
const slotBytes = 128 * 1024;
/** Must be a power of two, because the counters wrap around. */
const slots = 8;

/** Hashes in a separate thread, if there are enough bytes and a free processor. */
export function openHashing(bytes: number): Hashing {
  const isWorthwhile = bytes >= worthwhileBytes && availableParallelism() > 1;
  return isWorthwhile ? new HashThread() : localHashing;
}

/**
 * A thread that computes hashes. Hashing is a quarter of the work of a pull, and Node's hashes do not use its thread pool.
 *
 * Bytes go through a ring of slots in shared memory, which {@link hashSlots} empties. Each of the two counters of
 * {@link HashSlots.state} is only written by one side.
 */
class HashThread implements Hashing {
  readonly #state = new Int32Array(new SharedArrayBuffer((2 + 2 * slots) * 4));
  readonly #bytes = new Uint8Array(new SharedArrayBuffer(slots * slotBytes));
  readonly #worker: Worker;
  readonly #waiting = new Map<number, PromiseWithResolvers<string>>();
  readonly #failed = Promise.withResolvers<never>();
  #hashes = 0;

  constructor() {
    const workerData: HashSlots = { state: this.#state, bytes: this.#bytes, slots, slotBytes };
    this.#worker = new Worker(`(${hashSlots.toString()})()`, {
      eval: true,
      workerData,
      resourceLimits: { maxYoungGenerationSizeMb: 1, maxOldGenerationSizeMb: 16 },
    });
    this.#failed.promise.catch(() => {});
    this.#worker.on("message", ({ hash, hex }: HashResult) => {
      this.#waiting.get(hash)?.resolve(hex);
      this.#waiting.delete(hash);
    });
    this.#worker.on("error", (error) => this.#failed.reject(error));
    this.#worker.on("exit", () => this.#failed.reject(new Error("the hashing thread has ended")));
  }

  sha256(): StreamHash {
    const hash = this.#hashes++;
    return {
      update: (chunk) => this.#update(hash, chunk),
      digest: async () => await this.#digest(hash),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker.terminate();
  }

  #update(hash: number, chunk: Uint8Array): Promise<void> | undefined {
    if (chunk.length > slotBytes || this.#isFull()) return this.#updateSlowly(hash, chunk);
    this.#put(hash, chunk);
    return undefined;
  }

  async #updateSlowly(hash: number, chunk: Uint8Array): Promise<void> {
    for (let at = 0; at < chunk.length; at += slotBytes) {
      while (this.#isFull()) await this.#change();
      this.#put(hash, chunk.subarray(at, at + slotBytes));
    }
  }

  async #digest(hash: number): Promise<string> {
    const result = Promise.withResolvers<string>();
    this.#waiting.set(hash, result);
    while (this.#isFull()) await this.#change();
    this.#put(hash, undefined);
    return await Promise.race([result.promise, this.#failed.promise]);
  }

  #filled(): number {
    return this.#state[0] ?? 0; // only written by this side
  }

  #isFull(): boolean {
    return ((this.#filled() - Atomics.load(this.#state, 1)) | 0) === slots;
  }

  async #change(): Promise<void> {
    const change = Atomics.waitAsync(this.#state, 1, this.#filled() - slots);
    if (change.async) await Promise.race([change.value, this.#failed.promise]);
  }

  #put(hash: number, chunk: Uint8Array | undefined): void {
    const slot = (this.#filled() >>> 0) % slots;
    if (chunk) this.#bytes.set(chunk, slot * slotBytes);
    this.#state[2 + slot * 2] = hash;
    this.#state[3 + slot * 2] = chunk?.length ?? -1;
    Atomics.add(this.#state, 0, 1);
    Atomics.notify(this.#state, 0);
  }
}

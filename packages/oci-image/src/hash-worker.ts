import type { Hash } from "node:crypto";

/** Data for a thread that runs {@link hashSlots}. */
export interface HashSlots {
  /**
   * The number of slots filled so far and of those emptied so far. Then two numbers for each slot: which hash it belongs to,
   * and its byte count.
   */
  readonly state: Int32Array<SharedArrayBuffer>;
  readonly bytes: Uint8Array<SharedArrayBuffer>;
  readonly slots: number;
  readonly slotBytes: number;
}

/** The thread's message when a hash is finished. */
export interface HashResult {
  readonly hash: number;
  readonly hex: string;
}

/**
 * Hashes the slots of a ring as they are filled, endlessly. The thread is started from this function's source text, because a
 * single-file bundle has no other file for it. So the function must not use anything from its module.
 */
export function hashSlots(): void {
  const { createHash } = process.getBuiltinModule("node:crypto");
  const { parentPort, workerData } = process.getBuiltinModule("node:worker_threads");
  const { state, bytes, slots, slotBytes } = workerData as HashSlots; // from the parent thread
  const hashes = new Map<number, Hash>();
  for (let emptied = 0; ; emptied = (emptied + 1) | 0) {
    // A wake-up may arrive after its work is done.
    while (Atomics.load(state, 0) === emptied) Atomics.wait(state, 0, emptied);
    const slot = (emptied >>> 0) % slots;
    const hash = state[2 + slot * 2] ?? 0;
    const length = state[3 + slot * 2] ?? 0;
    const found = hashes.get(hash) ?? createHash("sha256");
    if (length === -1) {
      hashes.delete(hash);
      // eslint-disable-next-line unicorn/require-post-message-target-origin -- threads have no origin
      parentPort?.postMessage({ hash, hex: found.digest("hex") } satisfies HashResult);
    } else {
      hashes.set(hash, found);
      found.update(bytes.subarray(slot * slotBytes, slot * slotBytes + length));
    }
    Atomics.add(state, 1, 1);
    Atomics.notify(state, 1);
  }
}

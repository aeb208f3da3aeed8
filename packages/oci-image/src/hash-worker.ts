import type { Hash } from "node:crypto";

/** What a thread that runs {@link hashSlots} is given. */
export interface HashSlots {
  /** How many slots were filled and emptied so far, then two numbers for each slot: which hash, and how many bytes. */
  readonly state: Int32Array<SharedArrayBuffer>;
  readonly bytes: Uint8Array<SharedArrayBuffer>;
  readonly slots: number;
  readonly slotBytes: number;
}

/** What it answers when a hash has ended. */
export interface HashResult {
  readonly hash: number;
  readonly hex: string;
}

/**
 * Hashes the slots of a ring as they are filled, without end. The thread gets the text of this function, as a bundle of one file has
 * no other file for it: it takes nothing from its module.
 */
export function hashSlots(): void {
  const { createHash } = process.getBuiltinModule("node:crypto");
  const { parentPort, workerData } = process.getBuiltinModule("node:worker_threads");
  const { state, bytes, slots, slotBytes } = workerData as HashSlots; // of the one who starts it
  const hashes = new Map<number, Hash>();
  for (let emptied = 0; ; emptied = (emptied + 1) | 0) {
    // A call to wake up may come late, when what it was for is done.
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

/** What a {@link HashThread} runs: a text, so that it is there in a bundle too. */
export const hashScript = String.raw`
"use strict";
const { createHash } = require("node:crypto");
const { parentPort, workerData } = require("node:worker_threads");
const { state, bytes, slots, slotBytes } = workerData;
const hashes = new Map();
for (let emptied = 0; ; emptied = (emptied + 1) | 0) {
  // A call to wake up may come late, when what it was for is done.
  while (Atomics.load(state, 0) === emptied) Atomics.wait(state, 0, emptied);
  const slot = (emptied >>> 0) % slots;
  const hash = state[2 + slot * 2];
  const length = state[3 + slot * 2];
  let found = hashes.get(hash);
  if (!found) hashes.set(hash, (found = createHash("sha256")));
  if (length === -1) {
    hashes.delete(hash);
    parentPort.postMessage({ hash, hex: found.digest("hex") });
  } else {
    found.update(bytes.subarray(slot * slotBytes, slot * slotBytes + length));
  }
  Atomics.add(state, 1, 1);
  Atomics.notify(state, 1);
}
`;

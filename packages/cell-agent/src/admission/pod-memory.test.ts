import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { largestTmpfs, podMemory, withinMachine } from "./pod-memory.ts";

const MiB = 2 ** 20;
/** Total memory according to the kernel of the smallest machine. */
const totalBytes = 409 * MiB;

describe("podMemory()", () => {
  it("is what the agent and huge pages leave, and at least what the machine's type promises", () => {
    const bytes = podMemory({}, totalBytes);
    assert.ok(bytes <= totalBytes - 125 * MiB && bytes >= 256 * MiB);
    const hugePages = [{ pageBytes: 2 * MiB, bytes: 16 * MiB }];
    assert.equal(podMemory({ hugePages }, totalBytes), bytes - 16 * MiB);
    assert.ok(podMemory({}, 64 * MiB) > 0);
  });
});

describe("withinMachine()", () => {
  it("keeps a pod from the agent's memory, whatever its own limit is", () => {
    const limit = (memoryBytesLimit?: number): number | undefined =>
      withinMachine({ memoryBytesLimit }, {}, totalBytes).memoryBytesLimit;
    const most = podMemory({}, totalBytes);
    assert.deepEqual(
      [limit(), limit(0), limit(2 * totalBytes), limit(64 * MiB)],
      [most, most, most, 64 * MiB],
    );
  });
});

describe("largestTmpfs()", () => {
  it("leaves processes of the pod some memory", () => {
    assert.equal(largestTmpfs({}, totalBytes), podMemory({}, totalBytes) - 32 * MiB);
  });
});

import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { availableParallelism } from "node:os";
import { describe, it } from "node:test";
import { openHashing } from "./hash-thread.ts";
import { localHashing } from "./hashing.ts";

const large = 1024 ** 3;
const content = randomBytes(1024 * 1024);
/** Empty, less than a slot of the ring, exactly one, and more. */
const sizes = [0, 1, 100, 4096, 128 * 1024, 128 * 1024 + 1, 700_000];

describe("openHashing()", () => {
  it("hashes many streams at once, pieces of all sizes", { timeout: 120_000 }, async () => {
    await using hashing = openHashing(large);
    const streams = Array.from({ length: 6 }, async (_, stream) => {
      const hash = hashing.sha256();
      const expected = createHash("sha256");
      for (let count = 0; count < 3000; count++) {
        const size = sizes[(count * 7 + stream * 3) % (count % 50 === 0 ? sizes.length : 4)] ?? 0;
        const piece = content.subarray(count, count + size);
        expected.update(piece);
        const room = hash.update(piece);
        if (room) await room;
        // The others get turns too.
        if (count % 10 === stream) await Promise.resolve();
      }
      assert.equal(await hash.digest(), expected.digest("hex"));
    });
    await Promise.all(streams);
  });

  it("takes a piece over: it may be overwritten at once", async () => {
    await using hashing = openHashing(large);
    const hash = hashing.sha256();
    const piece = Buffer.from("one");
    await hash.update(piece);
    piece.fill(0);
    assert.equal(await hash.digest(), createHash("sha256").update("one").digest("hex"));
  });

  it("can be left in the middle", async () => {
    const hashing = openHashing(large);
    const hash = hashing.sha256();
    await hash.update(content);
    await hashing[Symbol.asyncDispose]();
    if (availableParallelism() > 1) await assert.rejects(hash.digest(), /has ended/);
  });

  it("starts no thread for little", () => {
    assert.equal(openHashing(1000), localHashing);
  });
});

import assert from "node:assert/strict";
import { Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { describe, it } from "node:test";
import { holdSmallWrites } from "./hold-small-writes.ts";
import { mergeSmallPieces } from "./merge-small-pieces.ts";

/** A stream whose pieces leave on the test's command. */
function sending(): { stream: Writable; sent: Buffer[]; leave: () => void } {
  const sent: Buffer[] = [];
  const waiting: (() => void)[] = [];
  const stream = new Writable({
    write: (piece: Buffer, _encoding, done) => {
      sent.push(piece);
      waiting.push(done);
    },
  });
  holdSmallWrites(stream);
  return { stream, sent, leave: () => waiting.shift()?.() };
}

async function nextTurn(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

describe("holdSmallWrites()", () => {
  it("keeps few of the single bytes that come while nothing leaves, and loses none", async () => {
    const source = new Readable({ read: () => {} });
    mergeSmallPieces(source);
    const { stream, sent, leave } = sending();
    const copied = pipeline(source, stream);
    const bytes = Buffer.from(Array.from({ length: 10_000 }, (_, index) => index % 251));
    for (const byte of bytes) {
      source.push(Buffer.of(byte));
      if (byte === 0) await nextTurn();
    }
    source.push(null);
    await nextTurn();
    assert.ok(stream.writableLength <= 16, `${stream.writableLength} bytes`);
    for (let turn = 0; turn < 100; turn++) {
      leave();
      await nextTurn();
    }
    await copied;
    assert.deepEqual(Buffer.concat(sent), bytes);
    assert.ok(sent.length < 50, `${sent.length} pieces`);
  });

  it("says when it takes more, for small pieces and for large ones", async () => {
    for (const bytes of [1, 5000]) {
      const { stream, leave } = sending();
      let drains = 0;
      stream.on("drain", () => (drains += 1));
      while (stream.write(Buffer.alloc(bytes)));
      assert.equal(drains, 0);
      for (let turn = 0; turn < 40; turn++) {
        leave();
        await nextTurn();
      }
      assert.equal(drains, 1);
      assert.equal(stream.write(Buffer.alloc(bytes)), true);
    }
  });
});

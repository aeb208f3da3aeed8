import assert from "node:assert/strict";
import { describe, it } from "node:test";
import v8 from "node:v8";
import vm from "node:vm";
import { ByteCollector } from "./byte-collector.ts";
import { readBeginning, readBody } from "./registry/http-exchange.ts";

v8.setFlagsFromString("--expose-gc");
const collectGarbage = vm.runInNewContext("gc") as () => void; // what the flag adds

function usedBytes(): number {
  collectGarbage();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

/** Single bytes, each in a buffer of its own, as from a socket. The last one comes with the memory usage of all of them. */
async function* drops(count: number, tell: (bytes: number) => void): AsyncGenerator<Uint8Array> {
  const before = usedBytes();
  for (let index = 0; index < count; index++) yield await Promise.resolve(Uint8Array.of(index));
  tell(usedBytes() - before);
}

describe("readBody() and readBeginning()", () => {
  const count = 30_000;

  it("take the memory of its bytes for an answer that comes byte by byte", async () => {
    let used = 0;
    const read = await readBody(
      drops(count, (bytes) => (used = bytes)),
      count,
    );
    assert.equal(read.length, count);
    assert.equal(read[count - 1], (count - 1) & 0xff);
    assert.ok(used < 40 * count, `${used} bytes`);
  });

  it("refuse an answer that is too long, and cut it where only its beginning counts", async () => {
    await assert.rejects(
      readBody(
        drops(11, () => {}),
        10,
      ),
      { code: "IMAGE_INVALID" },
    );
    const beginning = await readBeginning(
      drops(11, () => assert.fail("it is read to the end")),
      10,
    );
    assert.deepEqual([...beginning], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  });
});

describe("ByteCollector", () => {
  it("joins chunks of all sizes", () => {
    const collector = new ByteCollector();
    const chunks = [0, 1, 4095, 4096, 1, 100_000].map((size) => Buffer.alloc(size, `${size} `));
    for (const chunk of chunks) collector.add(chunk);
    assert.deepEqual(collector.bytes(), Buffer.concat(chunks));
    assert.equal(collector.length, 108_193);
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { gzipSync, zstdCompressSync } from "node:zlib";
import * as fc from "fast-check";
import { inflate } from "./inflate.ts";

async function inflated(bytes: Buffer, step: number, failure?: Error): Promise<string> {
  async function* source(): AsyncGenerator<Buffer> {
    for (let at = 0; at < bytes.length; at += step) yield bytes.subarray(at, at + step);
    if (failure) throw failure;
  }
  const chunks: Buffer[] = [];
  for await (const chunk of inflate(source())) chunks.push(chunk);
  return Buffer.concat(chunks).toString("latin1");
}

const skippable = Buffer.from([0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3]);
const text = fc.string({ minLength: 4, maxLength: 3000, unit: "grapheme-ascii" });
const step = fc.integer({ min: 1, max: 4000 });

describe("inflate()", () => {
  it("reads zstd of several frames, some to be skipped, in whatever pieces", async () => {
    const frames = fc.array(text, { minLength: 1, maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(frames, step, async (texts, size) => {
        const blob = texts.flatMap((each) => [zstdCompressSync(Buffer.from(each)), skippable]);
        assert.equal(await inflated(Buffer.concat([skippable, ...blob]), size), texts.join(""));
      }),
      { numRuns: 100 },
    );
  });

  it("reads gzip of several members, and what is not compressed", async () => {
    await fc.assert(
      fc.asyncProperty(text, text, step, async (one, two, size) => {
        const members = [gzipSync(Buffer.from(one)), gzipSync(Buffer.from(two))];
        assert.equal(await inflated(Buffer.concat(members), size), one + two);
        assert.equal(await inflated(Buffer.from(`plain${one}`), size), `plain${one}`);
      }),
      { numRuns: 50 },
    );
  });

  for (const [name, compress] of [
    ["gzip", gzipSync] as const,
    ["zstd", zstdCompressSync] as const,
  ]) {
    it(`refuses ${name} that stops early or goes on with something else`, async () => {
      const blob = compress(Buffer.from("content ".repeat(1000)));
      for (const bad of [blob.subarray(0, -3), Buffer.concat([blob, Buffer.from("garbage")])]) {
        await assert.rejects(inflated(bad, 7), { code: "IMAGE_INVALID" });
      }
    });

    it(`passes a failure of the source on, even one at the very end of ${name}`, async () => {
      const blob = compress(Buffer.from("content ".repeat(1000)));
      await assert.rejects(inflated(blob, 1000, new Error("cut")), { message: "cut" });
    });
  }

  it("takes an empty layer for one without entries, and refuses what is too short for any", async () => {
    assert.equal(await inflated(Buffer.alloc(0), 1), "");
    await assert.rejects(inflated(Buffer.alloc(3), 1), { code: "IMAGE_INVALID" });
  });
});

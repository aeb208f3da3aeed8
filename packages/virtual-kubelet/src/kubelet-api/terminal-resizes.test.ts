import assert from "node:assert/strict";
import { PassThrough, Readable } from "node:stream";
import { describe, it } from "node:test";
import type { TerminalSize } from "@kip/base";
import * as fc from "fast-check";
import { terminalResizes } from "./terminal-resizes.ts";

async function sizes(stream: Readable): Promise<TerminalSize[]> {
  const found: TerminalSize[] = [];
  for await (const size of terminalResizes(stream)) found.push(size);
  return found;
}

describe("terminalResizes()", () => {
  it("gives the newest size to a slow reader, and ends with the stream", async () => {
    const stream = new PassThrough();
    stream.write('{"Width":1,"Height":1}{"Width":2,"Height":2}');
    stream.end('{"Width":3,"Height":3}');
    assert.deepEqual(await sizes(stream), [{ columns: 3, rows: 3 }]);
  });

  it("skips documents that are not sizes", async () => {
    for (const text of ['{"Width":0,"Height":5}', '{"Width":1}', "nonsense}", "{[]}", "null}", ""])
      assert.deepEqual(await sizes(Readable.from([Buffer.from(text)])), [], text);
  });

  it("takes a size that arrives in pieces, after more bytes than a document may have", async () => {
    const pieces = ["{}".repeat(2000), '{"Width":1,"He', 'ight":2}{"Wid', "th"].map((text) =>
      Buffer.from(text),
    );
    assert.deepEqual(await sizes(Readable.from(pieces)), [{ columns: 1, rows: 2 }]);
  });

  it("takes little time for a message that is full of documents", async () => {
    const size = Buffer.from('{"Width":1,"Height":2}');
    for (const unit of ["}", "{}", "{", '{"Width":3,"Height":4}']) {
      const message = Buffer.alloc(4 * 1024 * 1024, unit);
      const before = process.threadCpuUsage();
      assert.deepEqual(await sizes(Readable.from([message, size])), [{ columns: 1, rows: 2 }]);
      const { user, system } = process.threadCpuUsage(before);
      assert.ok(user + system < 500_000, `${user + system} µs for ${unit}`);
    }
  });

  it("takes any bytes", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.uint8Array({ minLength: 1, maxLength: 50 })), async (chunks) => {
        const stream = Readable.from(chunks.map((chunk) => Buffer.from(chunk)));
        for await (const { columns, rows } of terminalResizes(stream))
          assert.ok(columns > 0 && rows > 0);
      }),
      { seed: 20_261_121 },
    );
  });
});

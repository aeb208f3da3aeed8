import assert from "node:assert/strict";
import { describe, it } from "node:test";
import zlib from "node:zlib";
import * as fc from "fast-check";
import { VirtualKubeletError } from "../../errors.ts";
import { spdyDictionary } from "./dictionary.ts";
import { HeaderDecoder, HeaderEncoder, parseHeaders, serializeHeaders } from "./headers.ts";

const isProtocolError = (error: unknown): boolean =>
  VirtualKubeletError.is(error, "VK_SPDY_PROTOCOL");

const names = fc.stringMatching(/^[a-z][a-z0-9-]{0,20}$/);
const headerMaps = fc
  .dictionary(names, fc.string({ maxLength: 60 }), { maxKeys: 20 })
  .map((entries) => new Map(Object.entries(entries)));

describe("HeaderEncoder", () => {
  it("writes blocks that zlib and the decoder read back, in one context", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(headerMaps, { minLength: 1, maxLength: 8 }), async (maps) => {
        const encoder = new HeaderEncoder();
        const decoder = new HeaderDecoder(1 << 16);
        for (const map of maps) {
          const read = await decoder.decode(encoder.encode(map));
          assert.deepEqual(read, map);
        }
        decoder.close();
      }),
      { numRuns: 50 },
    );
  });

  it("ends each block with an empty stored block, for readers that wait for one", () => {
    const block = new HeaderEncoder().encode(new Map());
    assert.equal(block.toString("hex"), "7820e3c6a7c2000400fbff00000000000000ffff");
  });
});

describe("HeaderDecoder.decode()", () => {
  it("reads what zlib compressed with the dictionary, in one context", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(headerMaps, { minLength: 1, maxLength: 8 }), async (maps) => {
        const deflate = zlib.createDeflate({ dictionary: spdyDictionary, level: 9 });
        const decoder = new HeaderDecoder(1 << 16);
        for (const map of maps) {
          deflate.write(serializeHeaders(map));
          await new Promise<void>((resolve) => deflate.flush(2, resolve));
          assert.deepEqual(await decoder.decode(deflate.read() as Buffer), map);
        }
        decoder.close();
      }),
      { numRuns: 50 },
    );
  });

  it("stops a decompression bomb", async () => {
    const bomb = zlib.deflateSync(Buffer.alloc(50_000_000), { dictionary: spdyDictionary });
    const decoder = new HeaderDecoder(16_384);
    await assert.rejects(decoder.decode(bomb), isProtocolError);
    await assert.rejects(decoder.decode(Buffer.alloc(4)), isProtocolError);
  });

  it("rejects another dictionary, another format and a finished stream", async () => {
    const content = serializeHeaders(new Map([["a", "b"]]));
    for (const block of [
      zlib.deflateSync(content, { dictionary: Buffer.from("other") }),
      zlib.gzipSync(content),
      Buffer.from("nonsense"),
      Buffer.alloc(0),
    ])
      await assert.rejects(new HeaderDecoder(1000).decode(block), isProtocolError);
    const decoder = new HeaderDecoder(1000);
    const finished = zlib.deflateSync(content, { dictionary: spdyDictionary });
    await decoder.decode(finished);
    await assert.rejects(decoder.decode(finished), isProtocolError);
  });

  it("answers or rejects any bytes, and never hangs", async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 200 }), async (bytes) => {
        const decoder = new HeaderDecoder(1000);
        await decoder.decode(Buffer.from(bytes)).catch((error: unknown) => {
          assert.ok(isProtocolError(error));
        });
        decoder.close();
      }),
      { seed: 20_261_121 },
    );
  });
});

describe("parseHeaders()", () => {
  it("reads back what serializeHeaders wrote", () => {
    fc.assert(
      fc.property(headerMaps, (map) => {
        assert.deepEqual(parseHeaders(serializeHeaders(map)), map);
      }),
    );
  });

  it("rejects counts and lengths that are not there, repeated and empty names", () => {
    const good = serializeHeaders(new Map([["streamtype", "data"]]));
    const blocks = [
      good.subarray(0, good.length - 1),
      Buffer.concat([good, Buffer.alloc(1)]),
      Buffer.from("ffffffff", "hex"),
      Buffer.from("00000001ffffffff61", "hex"),
      Buffer.from("000000010000000000000000", "hex"),
      Buffer.from("00000002000000016100000000000000016100000000", "hex"),
    ];
    for (const block of blocks) assert.throws(() => parseHeaders(block), isProtocolError);
  });
});

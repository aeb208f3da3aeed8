import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import { parseSparseList, SparseBlocks, SparseMap } from "./sparse-map.ts";

/** Rebuilds a file whose bytes arrive in pieces. */
function rebuild(map: SparseMap, pieces: readonly Buffer[]): Buffer {
  const parts: Buffer[] = [];
  const sink = {
    content: (piece: Buffer) => void parts.push(Buffer.from(piece)),
    hole: (length: number) => void parts.push(Buffer.alloc(length)),
  };
  for (const piece of pieces) map.feed(piece, sink);
  map.end(sink);
  return Buffer.concat(parts);
}

describe("SparseMap", () => {
  it("puts stored bytes where they belong, however they are cut", () => {
    const runs = fc.array(fc.tuple(fc.nat(50), fc.uint8Array({ maxLength: 40 })), {
      maxLength: 20,
    });
    fc.assert(
      fc.property(runs, fc.nat(50), fc.integer({ min: 1, max: 17 }), (list, tail, cut) => {
        const whole: Buffer[] = [];
        const stored = Buffer.concat(list.map(([, data]) => data));
        let offset = 0;
        const segments = list.map(([gap, data]) => {
          whole.push(Buffer.alloc(gap), Buffer.from(data));
          const segment = { offset: offset + gap, length: data.length };
          offset += gap + data.length;
          return segment;
        });
        const pieces: Buffer[] = [];
        for (let at = 0; at < stored.length; at += cut) pieces.push(stored.subarray(at, at + cut));
        const map = new SparseMap(segments, offset + tail, stored.length);
        assert.deepEqual(rebuild(map, pieces), Buffer.concat([...whole, Buffer.alloc(tail)]));
      }),
    );
  });

  it("refuses maps that overlap, leave the file, or lie about what is stored", () => {
    const cases: readonly [readonly (readonly [number, number])[], number, number][] = [
      [
        [
          [0, 10],
          [5, 10],
        ],
        100,
        20,
      ],
      [[[95, 10]], 100, 10],
      [[[0, 10]], 100, 11],
      [[[-1, 10]], 100, 10],
      [[[0, Number.MAX_SAFE_INTEGER + 1]], 100, 10],
    ];
    for (const [list, size, stored] of cases) {
      const segments = list.map(([offset, length]) => ({ offset, length }));
      assert.throws(() => new SparseMap(segments, size, stored), { code: "IMAGE_INVALID" });
    }
  });

  it("reads the lists of PAX, or refuses them", () => {
    assert.deepEqual(parseSparseList("0,5,10,2"), [
      { offset: 0, length: 5 },
      { offset: 10, length: 2 },
    ]);
    assert.deepEqual(new SparseBlocks().take("1\n7\n8\n\0\0\0"), [{ offset: 7, length: 8 }]);
    const blocks = new SparseBlocks();
    assert.equal(blocks.take("2\n7\n8\n9"), undefined);
    assert.deepEqual(blocks.take("9\n1\n\n"), [
      { offset: 7, length: 8 },
      { offset: 99, length: 1 },
    ]);
    for (const text of ["1", "1,x", "1,-2", "1,1e9"]) {
      assert.throws(() => parseSparseList(text), { code: "IMAGE_INVALID" });
    }
    assert.throws(() => new SparseBlocks().take("99999999\n"), { code: "IMAGE_INVALID" });
    fc.assert(
      fc.property(fc.string(), (text) => {
        try {
          new SparseBlocks().take(text);
        } catch (error) {
          assert.match(String(error), /broken map/);
        }
      }),
    );
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { der, objectIdentifier, tags, time } from "./der.ts";

describe("der()", () => {
  const cases: readonly (readonly [number, readonly number[]])[] = [
    [0, [0]],
    [127, [127]],
    [128, [0x81, 128]],
    [255, [0x81, 255]],
    [256, [0x82, 1, 0]],
    [65_536, [0x83, 1, 0, 0]],
  ];
  for (const [length, expected] of cases)
    it(`writes a length of ${length} in as few bytes as possible`, () => {
      const value = der(tags.octetString, Buffer.alloc(length));
      assert.deepEqual([...value.subarray(0, -length || undefined)], [4, ...expected]);
    });
});

describe("objectIdentifier()", () => {
  it("writes numbers above 127 in several bytes", () => {
    assert.equal(objectIdentifier("1.2.840.10045.4.3.2").toString("hex"), "06082a8648ce3d040302");
    assert.equal(objectIdentifier("2.5.29.17").toString("hex"), "0603551d11");
  });
});

describe("time()", () => {
  it("has two digits of the year until 2049, and four afterwards", () => {
    const last = new Date("2049-12-31T23:59:59.999Z");
    assert.deepEqual(time(last), der(tags.utcTime, Buffer.from("491231235959Z")));
    const next = new Date("2050-01-01T00:00:00Z");
    assert.deepEqual(time(next), der(tags.generalizedTime, Buffer.from("20500101000000Z")));
  });
});

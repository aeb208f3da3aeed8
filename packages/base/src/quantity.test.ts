import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { DecodeError } from "./errors.ts";
import { bytes, milliCpu, parseQuantity } from "./quantity.ts";
import { growth } from "./testing/index.ts";

function isRefused(text: string): void {
  assert.throws(
    () => parseQuantity(text),
    (error) => DecodeError.is(error, "QUANTITY_INVALID") && String(error).length < 300,
  );
}

describe("parseQuantity()", () => {
  for (const [text, value] of [
    ["2", 2],
    ["1.", 1],
    [".5", 0.5],
    ["+1.5Gi", 1.5 * 2 ** 30],
    ["250m", 0.25],
    ["2e3", 2000],
    ["1E", 1e18],
    [" 5Gi ", 5 * 2 ** 30],
  ] as const)
    it(`reads "${text}"`, () => assert.equal(parseQuantity(text), value));

  it("refuses what is not a quantity", () => {
    for (const text of ["", ".", "1.2.3", "5 Gi", "1KI", "e3", "1e", "0x10", "NaN", "1Kii"])
      isRefused(text);
  });

  it("refuses a text of more than 64 characters, and shows the beginning of it", () => {
    assert.equal(parseQuantity("1".padStart(64, "0")), 1);
    isRefused("1".padStart(65, "0"));
    isRefused(`${"1".repeat(256 * 1024)}x`);
  });

  it("refuses an amount that is not a finite number", () => {
    for (const text of ["1e999", "0e999", "-1e400"]) isRefused(text);
  });

  it("takes linear time for the annotation of a tenant", async () => {
    const read = (size: number): void => isRefused(`${"1".repeat(size)}x`);
    assert.ok((await growth(read, 20_000)) < 40);
  });
});

describe("milliCpu() and bytes()", () => {
  it("round up", () => {
    assert.equal(milliCpu("0.0001"), 1);
    assert.equal(bytes("1500m"), 2);
  });
});

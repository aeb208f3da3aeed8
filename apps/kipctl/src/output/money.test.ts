import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { cents, dollars } from "./money.ts";

describe("dollars()", () => {
  const amounts: readonly (readonly [number, string])[] = [
    [0, "$0.00"],
    [0.0052, "$0.0052"],
    [0.1, "$0.10"],
    [12.5, "$12.50"],
    [0.000001, "$0.000001"],
    [1.234567, "$1.234567"],
  ];
  for (const [amount, text] of amounts)
    it(`prints ${text}`, () => assert.equal(dollars(amount), text));
});

describe("cents()", () => {
  it("rounds to the cent, but for less than one", () => {
    assert.deepEqual([0, 0.004, 3.796, 1234.5].map(cents), [
      "$0.00",
      "$0.004",
      "$3.80",
      "$1234.50",
    ]);
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { printedFailure } from "./printed-failure.ts";

describe("printedFailure()", () => {
  it("takes a remedy of several lines", () => {
    const output = "kip: Cannot start\n     line 1: a\n     line 2: b\nother\n";
    const remedy = "line 1: a; line 2: b";
    assert.deepEqual(printedFailure(output), { message: "Cannot start", remedy });
  });

  it("takes the last failure and its remedy", () => {
    const output = "kip: earlier\n     Wait\nx\nkip: Cannot listen\n     Stop it\n";
    assert.deepEqual(printedFailure(output), { message: "Cannot listen", remedy: "Stop it" });
  });

  it("falls back to the last line", () => {
    assert.deepEqual(printedFailure("one\nSegmentation fault\n\n"), {
      message: "Segmentation fault",
      remedy: undefined,
    });
    assert.equal(printedFailure("\n"), undefined);
  });
});

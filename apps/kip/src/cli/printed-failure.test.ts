import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { printedFailure } from "./printed-failure.ts";

describe("printedFailure()", () => {
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

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ProbeTally } from "./probe-tally.ts";

describe("ProbeTally", () => {
  it("needs three failures in a row by default", () => {
    const tally = new ProbeTally({});
    const results = ["failure", "failure", "success", "failure", "failure", "failure"] as const;
    assert.deepEqual(
      results.map((result) => tally.add(result)),
      [undefined, undefined, "success", undefined, undefined, "failure"],
    );
  });

  it("takes the thresholds it is given", () => {
    const tally = new ProbeTally({ success: 2, failure: 1 });
    assert.equal(tally.add("failure"), "failure");
    assert.equal(tally.add("success"), undefined);
    assert.equal(tally.add("success"), "success");
  });
});

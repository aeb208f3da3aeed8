import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { matchesLabels } from "./label-selector.ts";

describe("matchesLabels()", () => {
  it("does not take names that every object of JavaScript has for labels", () => {
    for (const key of ["constructor", "toString", "valueOf"]) {
      const is = (operator: string, labels = {}): boolean =>
        matchesLabels({ matchExpressions: [{ key, operator }] }, labels);
      assert.equal(is("Exists"), false, key);
      assert.equal(is("DoesNotExist"), true, key);
      assert.equal(is("Exists", { [key]: "" }), true, key);
    }
  });
});

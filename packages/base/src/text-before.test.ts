import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { textBefore } from "./text-before.ts";

describe("textBefore()", () => {
  it("cuts at the first separator, and keeps a text without one", () => {
    assert.equal(textBefore("a=b=c", "="), "a");
    assert.equal(textBefore("=b", "="), "");
    assert.equal(textBefore("plain", "\n"), "plain");
  });
});

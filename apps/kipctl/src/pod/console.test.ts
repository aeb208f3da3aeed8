import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { lastLines } from "./console.ts";

describe("lastLines()", () => {
  it("takes lines from the end, or all", () => {
    assert.equal(lastLines("a\nb\nc\n", 2), "b\nc\n");
    assert.equal(lastLines("a\nb", 1), "b\n");
    assert.equal(lastLines("a\nb", 0), "");
    assert.equal(lastLines("a\nb", -1), "a\nb");
    assert.equal(lastLines("", 5), "");
  });

  it("leaves out what would control a terminal", () => {
    assert.equal(
      lastLines("\u001b[2Ja\u001b]0;title\u0007b\r\nc\td\u0008\u202e\n", -1),
      "ab\nc\td\n",
    );
  });
});

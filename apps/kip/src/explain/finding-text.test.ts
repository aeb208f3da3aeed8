import assert from "node:assert/strict";
import { it } from "node:test";
import { findingText } from "./finding-text.ts";

it("findingText() writes signs that would control a terminal or begin a line as text", () => {
  const sentences = ["Event NetworkNotReady of pod a/b: \u001b[2J\u009b1m\nIt passes."];
  const text = findingText({ outcome: "dropped", sentences });
  assert.equal(
    text,
    "Event NetworkNotReady of pod a/b: \\u001b[2J\\u009b1m\\u000aIt passes.\n\n" +
      "It does not pass: packets are dropped.",
  );
});

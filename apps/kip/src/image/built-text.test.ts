import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { builtText } from "./built-text.ts";

const built = {
  id: "ami-1",
  name: "kip-cell-0123-89ab-x86_64",
  region: "eu-west-1",
  isNew: true,
  leftOvers: [],
};

describe("builtText()", () => {
  it("says what was made, or that it was there", () => {
    const made = builtText(built);
    assert.match(made, /^Image ami-1 \(kip-cell-0123-89ab-x86_64\) was made in eu-west-1\.\n/);
    assert.doesNotMatch(made, /money/);
    assert.match(builtText({ ...built, isNew: false }), /was in eu-west-1 already/);
  });

  it("lists what other builds left, and how to remove it", () => {
    const leftOvers = [
      {
        id: "snap-1",
        state: "pending" as const,
        reason: "",
        name: "kip-cell-old",
        startedAt: new Date(0),
      },
    ];
    const text = builtText({ ...built, leftOvers });
    assert.match(text, /snap-1 {2}kip-cell-old, pending, of 1970-01-01T00:00:00.000Z\n/);
    assert.match(text, /aws ec2 delete-snapshot --region eu-west-1 /);
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { goDuration } from "./go-duration.ts";

describe("goDuration()", () => {
  for (const [ms, text] of [
    [0.4, "0s"],
    [850.9, "850ms"],
    [1204.7, "1.204s"],
    [10_000, "10s"],
    [80_000, "1m20s"],
    [61_500, "1m1.5s"],
    [3_600_500, "1h0m0.5s"],
  ] as const)
    it(text, () => assert.equal(goDuration(ms), text));
});

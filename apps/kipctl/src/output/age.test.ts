import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ageText, durationText } from "./age.ts";

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

describe("durationText()", () => {
  const spans: readonly (readonly [number, string])[] = [
    [-5 * second, "0s"],
    [0, "0s"],
    [999, "0s"],
    [119 * second, "119s"],
    [2 * minute, "2m"],
    [3 * minute + 20 * second, "3m20s"],
    [10 * minute + 20 * second, "10m"],
    [179 * minute, "179m"],
    [3 * hour, "3h"],
    [3 * hour + 5 * minute, "3h5m"],
    [47 * hour, "47h"],
    [2 * day + 3 * hour, "2d3h"],
    [100 * day, "100d"],
    [800 * day, "2y70d"],
  ];
  for (const [ms, text] of spans) it(`prints ${text}`, () => assert.equal(durationText(ms), text));
});

describe("ageText()", () => {
  it("counts from a time of the API", () => {
    assert.equal(ageText("2026-01-01T00:00:00Z", Date.parse("2026-01-01T00:00:45Z")), "45s");
  });

  it("is nothing without a time", () => {
    assert.equal(ageText(undefined, 0), undefined);
    assert.equal(ageText("yesterday", 0), undefined);
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { chooseForRemoval } from "./template-policy.ts";

const template = (key: string, lastUsedAt: number, isInUse = false) => ({
  key,
  bytes: 10,
  lastUsedAt,
  isInUse,
});

describe("chooseForRemoval()", () => {
  it("takes those that were not used for longest, and no more than needed", () => {
    const stored = [template("new", 3), template("old", 1), template("middle", 2)];
    assert.deepEqual(chooseForRemoval(stored, 30), []);
    assert.deepEqual(chooseForRemoval(stored, 29), ["old"]);
    assert.deepEqual(chooseForRemoval(stored, 10), ["old", "middle"]);
  });

  it("leaves those that machines stand on", () => {
    const stored = [template("old", 1, true), template("new", 2)];
    assert.deepEqual(chooseForRemoval(stored, 15), ["new"]);
    assert.deepEqual(chooseForRemoval([template("old", 1, true)], 5), []);
  });

  it("takes the only one if it alone is above the limit", () => {
    assert.deepEqual(chooseForRemoval([template("big", 1)], 5), ["big"]);
  });
});

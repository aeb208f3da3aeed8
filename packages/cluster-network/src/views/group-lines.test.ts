import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { GroupLines } from "./group-lines.ts";

describe("GroupLines", () => {
  it("keeps nothing for versions in which the group did not change", () => {
    const lines = new GroupLines("g", ["10.0.0.1"]);
    lines.change({ add: ["10.0.0.2"], remove: [], isOther: true, isReranked: false, bytes: 0 }, 5);
    assert.match(lines.since(4).toString(), /10\.0\.0\.2/);
    const nothing = new Set(Array.from({ length: 100 }, (_, i) => lines.since(5 + i)));
    assert.equal(nothing.size, 1);
    assert.deepEqual([...nothing], [Buffer.alloc(0)]);
  });
});

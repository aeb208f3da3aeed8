import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { flatKey } from "./cgroup.ts";

describe("flatKey()", () => {
  it("finds whole keys only", () => {
    const text = "low 0\noom 1\noom_kill 2\noom_group_kill 3\n";
    assert.equal(flatKey(text, "oom"), 1);
    assert.equal(flatKey(text, "oom_kill"), 2);
    assert.equal(flatKey(text, "kill"), 0);
    assert.equal(flatKey(undefined, "oom"), 0);
  });
});

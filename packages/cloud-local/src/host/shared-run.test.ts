import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { SharedRun } from "./shared-run.ts";

describe("SharedRun", () => {
  it("runs once more for all callers that come during a run", async () => {
    const ends: (() => void)[] = [];
    let atOnce = 0;
    const shared = new SharedRun(async () => {
      assert.equal(++atOnce, 1);
      await new Promise<void>((resolve) => ends.push(resolve));
      atOnce--;
    });
    const first = shared.run();
    await new Promise(setImmediate);
    const others = [shared.run(), shared.run(), shared.run()];
    await new Promise(setImmediate);
    assert.equal(ends.length, 1);
    ends[0]?.();
    await first;
    await new Promise(setImmediate);
    assert.equal(ends.length, 2);
    ends[1]?.();
    await Promise.all(others);
    assert.equal(ends.length, 2);
  });

  it("runs again after a failure, which its callers see", async () => {
    let runs = 0;
    const shared = new SharedRun(async () => {
      await Promise.resolve();
      if (++runs === 1) throw new Error("failed");
    });
    await assert.rejects(shared.run(), /failed/);
    await shared.run();
    assert.equal(runs, 2);
  });
});

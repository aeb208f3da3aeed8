import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { repeatPauseMs } from "./reduce-agent.ts";

const podRef = { namespace: "default", name: "web", uid: "p" };

describe("repeatPauseMs()", () => {
  it("doubles from half a second to five minutes, and is at most a fifth shorter", () => {
    for (const [count, ms] of [
      [1, 500],
      [2, 1000],
      [20, 300_000],
    ] as const) {
      const pauseMs = repeatPauseMs(podRef, count);
      assert.ok(pauseMs <= ms && pauseMs >= ms * 0.8, `${pauseMs}`);
    }
  });

  it("differs between pods, and is the same for one", () => {
    const pauses = Array.from({ length: 100 }, (_, index) =>
      repeatPauseMs({ ...podRef, uid: `p${index}` }, 1),
    );
    assert.equal(new Set(pauses).size, 100);
    assert.equal(repeatPauseMs(podRef, 3), repeatPauseMs(podRef, 3));
  });
});

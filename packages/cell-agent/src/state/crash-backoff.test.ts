import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { countCrash, failureDelayMs, type CrashBackoff } from "./crash-backoff.ts";

describe("countCrash()", () => {
  let backoff: CrashBackoff | undefined;
  beforeEach(() => (backoff = undefined));
  const crashDelayMs = (nowMs: number): number => {
    const crash = countCrash(backoff, nowMs);
    ({ backoff } = crash);
    return crash.delayMs;
  };

  it("grows from nothing over 10 s to 5 min", () => {
    let nowMs = 0;
    const delays = Array.from({ length: 8 }, () => {
      const delay = crashDelayMs(nowMs);
      nowMs += delay + 1000;
      return delay / 1000;
    });
    assert.deepEqual(delays, [0, 10, 20, 40, 80, 160, 300, 300]);
  });

  it("forgets after ten minutes without a crash", () => {
    crashDelayMs(0);
    assert.equal(crashDelayMs(1000), 10_000);
    assert.equal(crashDelayMs(11_000 + 600_001), 0);
  });
});

describe("failureDelayMs()", () => {
  it("grows from 10 s to 5 min", () => {
    const delays = [1, 2, 3, 6, 60].map((failures) => failureDelayMs(failures) / 1000);
    assert.deepEqual(delays, [10, 20, 40, 300, 300]);
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { container } from "../../test/desired-pod.ts";
import { newRecord } from "./container-record.ts";
import { crashDelayMs, failureDelayMs } from "./crash-backoff.ts";

describe("crashDelayMs()", () => {
  it("grows from nothing over 10 s to 5 min", () => {
    const record = newRecord(container("a"), "main");
    let nowMs = 0;
    const delays = Array.from({ length: 8 }, () => {
      const delay = crashDelayMs(record, nowMs);
      nowMs += delay + 1000;
      return delay / 1000;
    });
    assert.deepEqual(delays, [0, 10, 20, 40, 80, 160, 300, 300]);
  });

  it("forgets after ten minutes without a crash", () => {
    const record = newRecord(container("a"), "main");
    crashDelayMs(record, 0);
    assert.equal(crashDelayMs(record, 1000), 10_000);
    assert.equal(crashDelayMs(record, 11_000 + 600_001), 0);
  });
});

describe("failureDelayMs()", () => {
  it("grows from 10 s to 5 min", () => {
    const delays = [1, 2, 3, 6, 60].map((failures) => failureDelayMs(failures) / 1000);
    assert.deepEqual(delays, [10, 20, 40, 300, 300]);
  });
});

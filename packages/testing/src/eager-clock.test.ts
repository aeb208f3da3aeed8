import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { EagerClock } from "./eager-clock.ts";

describe("EagerClock", () => {
  it("moves on by what is slept, and notes it", async () => {
    const clock = new EagerClock({ nowMs: 1000 });
    await Promise.all([clock.sleep(3_600_000), clock.sleep(5)]);
    assert.deepEqual([clock.now(), clock.monotonic()], [3_601_005, 3_600_005]);
    assert.deepEqual(clock.pauses, [3_600_000, 5]);
  });

  it("moves on at each look, if that is asked for", () => {
    const clock = new EagerClock({ lookMs: 500 });
    assert.deepEqual([clock.monotonic(), clock.monotonic()], [500, 1000]);
  });

  it("ends a sleep that is aborted, and does not move on", async () => {
    const clock = new EagerClock();
    const stop = new AbortController();
    const sleeping = clock.sleep(1000, stop.signal);
    stop.abort(new Error("enough"));
    await assert.rejects(sleeping, /enough/);
    assert.equal(clock.monotonic(), 0);
  });
});

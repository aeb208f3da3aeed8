import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ManualClock } from "@kip/testing";
import { GarbageOfBulk } from "./garbage-of-bulk.ts";

describe("GarbageOfBulk", () => {
  it("collects once, a while after each large amount, and not after small ones", async () => {
    const clock = new ManualClock();
    let collections = 0;
    using garbage = new GarbageOfBulk(clock, () => collections++);
    garbage.note(500_000);
    await clock.advance(60_000);
    assert.equal(collections, 0);
    for (let n = 0; n < 10; n++) garbage.note(500_000);
    await clock.advance(9_000);
    assert.equal(collections, 0);
    await clock.advance(1_000);
    assert.equal(collections, 1);
    await clock.advance(60_000);
    garbage.note(500_000);
    await clock.advance(60_000);
    assert.equal(collections, 1);
    garbage.note(600_000);
    await clock.advance(10_000);
    assert.equal(collections, 2);
  });

  it("collects nothing once it has ended", async () => {
    const clock = new ManualClock();
    let collections = 0;
    const garbage = new GarbageOfBulk(clock, () => collections++);
    garbage.note(2_000_000);
    garbage[Symbol.dispose]();
    await clock.advance(60_000);
    assert.equal(collections, 0);
  });
});

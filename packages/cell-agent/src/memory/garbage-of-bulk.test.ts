import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ManualClock } from "@kip/testing";
import { GarbageOfBulk } from "./garbage-of-bulk.ts";

describe("GarbageOfBulk", () => {
  it("collects in the first pause after many bytes, and not after few", async () => {
    const clock = new ManualClock();
    let collections = 0;
    using garbage = new GarbageOfBulk(clock, () => collections++);
    garbage.note(100_000);
    await clock.advance(60_000);
    assert.equal(collections, 0);
    for (let n = 0; n < 5; n++) {
      garbage.note(100_000);
      await clock.advance(9_000);
    }
    assert.equal(collections, 0);
    await clock.advance(11_000);
    assert.equal(collections, 1);
    garbage.note(100_000);
    await clock.advance(60_000);
    assert.equal(collections, 1);
  });

  it("collects without a pause, too, after very many bytes", async () => {
    const clock = new ManualClock();
    let collections = 0;
    using garbage = new GarbageOfBulk(clock, () => collections++);
    for (let n = 0; n < 100; n++) {
      garbage.note(100_000);
      await clock.advance(1_000);
    }
    assert.ok(collections >= 4 && collections <= 6, `${collections} collections`);
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

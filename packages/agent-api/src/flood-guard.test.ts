import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { FloodGuard } from "./flood-guard.ts";

describe("FloodGuard", () => {
  it("notices bytes without content, and no content however small its pieces", () => {
    let read = 5000;
    const guard = new FloodGuard(() => read, 0);
    const second = (time: number, bytes: number, content: number): boolean => {
      read += bytes;
      guard.received(content);
      return guard.isFlooded(time);
    };
    assert.equal(second(1000, 400_000, 0), false);
    assert.equal(second(2000, 100_000_000, 90_000_000), false);
    assert.equal(second(3000, 31 * 100_000, 100_000), false); // one frame and one record per byte
    assert.equal(second(4000, 1_000_000, 0), true);
    assert.equal(second(14_000, 1_000_000, 0), false);
  });

  it("expects what was on its way when a response was broken off, once and for a while", () => {
    let read = 0;
    const guard = new FloodGuard(() => read, 0);
    const second = (time: number, bytes: number): boolean => {
      read += bytes;
      return guard.isFlooded(time);
    };
    guard.brokenOff(10_000_000);
    assert.equal(second(1000, 8_000_000), false);
    assert.equal(second(2000, 8_000_000), false);
    assert.equal(second(3000, 8_000_000), true);
    guard.brokenOff(10_000_000);
    for (let time = 4000; time < 64_000; time += 1000) assert.equal(second(time, 0), false);
    assert.equal(second(64_000, 8_000_000), true);
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ManualClock } from "@kip/testing";
import { findSource } from "./find-source.ts";
import type { DataSource } from "./instance-data.ts";

const { signal } = new AbortController();

/** A source that is available at the given check, counted from 1. */
function source(name: string, availableAt: number): DataSource & { readonly asked: () => number } {
  let asked = 0;
  return {
    name,
    isAvailable: async () => await Promise.resolve(++asked >= availableAt),
    read: async () => await Promise.reject(new Error("not read here")),
    asked: () => asked,
  };
}

describe("findSource()", () => {
  it("asks all at once and takes the first that has data", async () => {
    const [slow, quick] = [source("slow", 5), source("quick", 3)];
    const clock = new ManualClock();
    const found = findSource([slow, quick], { signal, clock });
    await clock.advance(1000);
    assert.equal((await found).name, "quick");
    assert.ok(slow.asked() >= 2);
    const { asked } = slow;
    const before = asked();
    await clock.advance(60_000);
    assert.equal(asked(), before);
    assert.equal(clock.sleepers, 0);
  });

  it("waits from 100 ms to 5 s between questions, and five minutes in all", async () => {
    const clock = new ManualClock();
    const never = source("EC2", Number.POSITIVE_INFINITY);
    const found = findSource([never], { signal, clock });
    const failed = assert.rejects(found, {
      code: "DATA_SOURCE_MISSING",
      message: /EC2 had none within 300 s/,
    });
    await clock.advance(100);
    assert.equal(never.asked(), 2);
    await clock.advance(299_900);
    await failed;
    // 100, 200, ... 3200 ms, then 5 s each, all up to a fifth shorter.
    assert.ok(never.asked() >= 60 && never.asked() <= 85, `${never.asked()}`);
  });

  it("stops when its caller does", async () => {
    const stop = new AbortController();
    const never = source("EC2", 10_000);
    const found = findSource([never], { signal: stop.signal, clock: new ManualClock() });
    stop.abort(new Error("stopped"));
    await assert.rejects(found, /stopped/);
  });
});

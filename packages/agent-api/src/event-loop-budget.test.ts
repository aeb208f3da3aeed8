import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { EventLoopBudget } from "./event-loop-budget.ts";

/** A clock that only advances by sleeping. */
function sleepingClock() {
  let now = 0;
  const slept: number[] = [];
  return {
    slept,
    pass: (ms: number) => void (now += ms),
    monotonic: () => now,
    sleep: async (ms: number) => {
      slept.push(ms);
      now += ms;
    },
  };
}
const { signal } = new AbortController();

describe("EventLoopBudget", () => {
  it("does not delay a peer that stays within it", async () => {
    const clock = sleepingClock();
    const budget = new EventLoopBudget(clock);
    for (let second = 0; second < 100; second += 1) {
      budget.charge(25);
      clock.pass(1000);
      await budget.settle(signal);
    }
    assert.deepEqual(clock.slept, []);
  });

  it("gives a peer without pause three hundredths of the time", async () => {
    const clock = sleepingClock();
    const budget = new EventLoopBudget(clock);
    let used = 0;
    while (clock.monotonic() < 1_000_000) {
      budget.charge(10);
      used += 10;
      clock.pass(10);
      await budget.settle(signal);
    }
    assert.ok(Math.abs(used / clock.monotonic() - 0.03) < 0.001);
  });

  it("has who asks often wait only after more than its share", async () => {
    const clock = sleepingClock();
    const budget = new EventLoopBudget(clock);
    budget.charge(300);
    assert.equal(budget.wait(signal), undefined);
    budget.charge(3);
    await budget.wait(signal);
    assert.deepEqual(clock.slept.map(Math.round), [100]);
    assert.equal(budget.wait(signal), undefined);
    budget.charge(3);
    const sleepless = { monotonic: () => 0, sleep: async () => await Promise.reject(new Error()) };
    const given = new EventLoopBudget(sleepless);
    given.charge(301);
    await given.wait(AbortSignal.abort());
  });

  it("charges what measured work takes, also when it fails", async () => {
    const clock = sleepingClock();
    const budget = new EventLoopBudget(clock);
    const work = (): never => {
      const start = process.threadCpuUsage();
      while (process.threadCpuUsage(start).user < 400_000);
      throw new Error("refused");
    };
    assert.throws(() => budget.spend(work), /refused/);
    await budget.settle(signal);
    assert.ok((clock.slept[0] ?? 0) > 1000);
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ManualClock } from "@kip/testing";
import { endIn } from "../state/pod-end.ts";
import { GracePeriod } from "./grace-period.ts";

const never = new AbortController().signal;

function create(graceMs: number) {
  const clock = new ManualClock();
  const grace = new GracePeriod(clock, endIn(graceMs, clock.now()));
  const shorten = (ms: number): void => grace.shorten(endIn(ms, clock.now()));
  return { clock, grace, shorten };
}

describe("GracePeriod", () => {
  it("can be shortened while somebody waits, and not lengthened", async () => {
    const { grace, shorten, clock } = create(600_000);
    using limit = grace.limit();
    const end = grace.endMs;
    shorten(900_000);
    assert.equal(grace.endMs, end);
    const over = new Promise((resolve) => limit.signal.addEventListener("abort", resolve));
    shorten(0);
    await clock.advance(0);
    await over;
    assert.equal(grace.remainingMs(), 0);
  });

  it("gives a little longer to what comes after a hook, however short it becomes", async () => {
    const { grace, shorten, clock } = create(1);
    let isOver = false;
    const over = grace.passes(never, 600_000).then((value) => (isOver = value));
    await clock.advance(5);
    shorten(0);
    await clock.advance(599_000);
    assert.equal(isOver, false);
    await clock.advance(1000);
    await over;
    assert.equal(isOver, true);
  });

  for (const [way, ms] of [
    ["forward", 3_600_000],
    ["back", -3_600_000],
  ] as const)
    it(`is as long when the clock is set ${way} meanwhile`, async () => {
      const { grace, clock } = create(10_000);
      clock.step(ms);
      let isOver = false;
      const over = grace.passes(never).then((value) => (isOver = value));
      await clock.advance(9000);
      assert.equal(isOver, false);
      assert.equal(grace.remainingMs(), 1000);
      await clock.advance(1000);
      assert.equal(isOver, true);
      await over;
    });

  it("is no longer waited for once the signal aborts", async () => {
    const { grace, clock } = create(1000);
    const ended = new AbortController();
    const waiting = grace.passes(ended.signal);
    ended.abort();
    assert.equal(await waiting, false);
    assert.equal(clock.sleepers, 0);
  });
});

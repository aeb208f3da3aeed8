import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ManualClock } from "@kip/testing";
import { GivenUp } from "./given-up.ts";

const minuteMs = 60_000;

describe("GivenUp", () => {
  it("lets a template that took too long be tried again after ten minutes, then after twenty", async () => {
    const clock = new ManualClock();
    const givenUp = new GivenUp(clock);
    givenUp.postpone("one");
    assert.equal(givenUp.has("one"), true);
    assert.equal(givenUp.has("other"), false);
    await clock.advance(10 * minuteMs);
    assert.equal(givenUp.has("one"), false);
    givenUp.postpone("one");
    await clock.advance(19 * minuteMs);
    assert.equal(givenUp.has("one"), true);
    await clock.advance(minuteMs);
    assert.equal(givenUp.has("one"), false);
  });

  it("waits two hours at most, however often it took too long", async () => {
    const clock = new ManualClock();
    const givenUp = new GivenUp(clock);
    for (let count = 0; count < 10; count++) {
      givenUp.postpone("one");
      await clock.advance(120 * minuteMs);
      assert.equal(givenUp.has("one"), false);
    }
  });

  it("keeps one that failed for another reason indefinitely", async () => {
    const clock = new ManualClock();
    const givenUp = new GivenUp(clock);
    givenUp.add("one");
    await clock.advance(1000 * minuteMs);
    assert.equal(givenUp.has("one"), true);
  });
});

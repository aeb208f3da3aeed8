import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ManualClock } from "@kip/testing";
import { ExcludedTemplates } from "./excluded-templates.ts";

const minuteMs = 60_000;

describe("GivenUp", () => {
  it("lets a template that took too long be tried again after ten minutes, then after twenty", async () => {
    const clock = new ManualClock();
    const excluded = new ExcludedTemplates(clock);
    excluded.postpone("one");
    assert.equal(excluded.has("one"), true);
    assert.equal(excluded.has("other"), false);
    await clock.advance(10 * minuteMs);
    assert.equal(excluded.has("one"), false);
    excluded.postpone("one");
    await clock.advance(19 * minuteMs);
    assert.equal(excluded.has("one"), true);
    await clock.advance(minuteMs);
    assert.equal(excluded.has("one"), false);
  });

  it("waits two hours at most, however often it took too long", async () => {
    const clock = new ManualClock();
    const excluded = new ExcludedTemplates(clock);
    for (let count = 0; count < 10; count++) {
      excluded.postpone("one");
      await clock.advance(120 * minuteMs);
      assert.equal(excluded.has("one"), false);
    }
  });

  it("keeps one that failed for another reason indefinitely", async () => {
    const clock = new ManualClock();
    const excluded = new ExcludedTemplates(clock);
    excluded.add("one");
    await clock.advance(1000 * minuteMs);
    assert.equal(excluded.has("one"), true);
  });
});

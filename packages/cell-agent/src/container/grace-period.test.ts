import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { systemClock } from "@kip/base";
import { GracePeriod } from "./grace-period.ts";

describe("GracePeriod", () => {
  it("can be shortened while somebody waits, and not lengthened", async () => {
    const grace = new GracePeriod(systemClock, 600_000);
    using limit = grace.limit();
    const end = grace.endMs;
    grace.shorten(900_000);
    assert.equal(grace.endMs, end);
    const over = new Promise((resolve) => limit.signal.addEventListener("abort", resolve));
    grace.shorten(0);
    await over;
    assert.equal(grace.isForced, true);
  });

  it("gives a little longer to what comes after a hook, unless it is forced", async () => {
    const grace = new GracePeriod(systemClock, 1);
    using limit = grace.limit(600_000);
    await new Promise((resolve) => setTimeout(resolve, 5));
    assert.equal(limit.signal.aborted, false);
    const over = new Promise((resolve) => limit.signal.addEventListener("abort", resolve));
    grace.shorten(0);
    await over;
  });
});

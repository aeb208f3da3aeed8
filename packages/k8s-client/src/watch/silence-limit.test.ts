import assert from "node:assert/strict";
import { once } from "node:events";
import { PassThrough } from "node:stream";
import { describe, it } from "node:test";
import { ManualClock } from "@kip/testing";
import { SilenceLimit } from "./silence-limit.ts";

describe("SilenceLimit", () => {
  it("destroys what is silent for three minutes, and nothing that is heard", async () => {
    const clock = new ManualClock();
    const limit = SilenceLimit.of(clock);
    const [silent, heard, late] = [new PassThrough(), new PassThrough(), new PassThrough()];
    const failed = once(silent, "error");
    limit.heard(silent);
    limit.heard(heard);
    await clock.advance(100_000);
    limit.heard(heard);
    limit.heard(late);
    await clock.advance(79_999);
    assert.equal(silent.destroyed, false);
    await clock.advance(1);
    const [error] = (await failed) as [Error]; // of the event
    assert.match(error.message, /nothing for 180 s/);
    limit.heard(late);
    const second = once(heard, "error");
    await clock.advance(100_000);
    await second;
    assert.equal(late.destroyed, false);
    late.destroy();
  });

  it("is one for all that use a clock, and holds no timer without a body", async () => {
    const clock = new ManualClock();
    const limit = SilenceLimit.of(clock);
    assert.equal(SilenceLimit.of(clock), limit);
    for (let round = 0; round < 2; round++) {
      const bodies = [new PassThrough(), new PassThrough()];
      for (const body of bodies) limit.heard(body);
      assert.equal(clock.sleepers, 1);
      for (const body of bodies) await once(body.destroy(), "close");
      await clock.advance(0);
      assert.equal(clock.sleepers, 0);
    }
    const closed = new PassThrough().destroy();
    await once(closed, "close");
    limit.heard(closed);
    assert.equal(clock.sleepers, 0);
  });
});

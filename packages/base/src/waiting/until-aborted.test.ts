import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { untilAborted } from "./until-aborted.ts";

const reason = new Error("enough");

describe("untilAborted()", () => {
  it("gives what the promise gives, with a signal and without", async () => {
    const { signal } = new AbortController();
    assert.equal(await untilAborted(Promise.resolve(1), signal), 1);
    assert.equal(await untilAborted(Promise.resolve(2)), 2);
    await assert.rejects(untilAborted(Promise.reject(reason), signal), reason);
  });

  it("ends with the signal's reason, and takes care of what the promise says later", async () => {
    const aborter = new AbortController();
    const late = Promise.withResolvers<never>();
    const waiting = untilAborted(late.promise, aborter.signal);
    aborter.abort(reason);
    await assert.rejects(waiting, reason);
    await assert.rejects(untilAborted(late.promise, aborter.signal), reason);
    late.reject(new Error("not waited for"));
    await new Promise((resolve) => setImmediate(resolve));
  });
});

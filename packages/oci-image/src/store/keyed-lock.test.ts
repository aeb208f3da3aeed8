import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { KeyedLock } from "./keyed-lock.ts";

describe("KeyedLock", () => {
  it("lets a waiter go whose signal aborts, and the next one in afterwards", async () => {
    const lock = new KeyedLock();
    const first = Promise.withResolvers<string>();
    const order: string[] = [];
    const running = lock.run("key", async () => await first.promise);
    const stop = new AbortController();
    const waiting = lock.run("key", () => assert.fail("it has left"), stop.signal);
    const last = lock.run("key", async () => await Promise.resolve(void order.push("last")));
    stop.abort(new Error("not wanted any more"));
    await assert.rejects(waiting, { message: "not wanted any more" });
    assert.deepEqual(order, []);
    first.resolve("done");
    assert.equal(await running, "done");
    await last;
    assert.deepEqual(order, ["last"]);
  });
});

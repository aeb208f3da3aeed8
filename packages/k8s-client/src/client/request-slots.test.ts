import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ManualClock } from "@kip/testing";
import { RequestSlots, type SlotRequest } from "./request-slots.ts";

/** Occupies the only slot, queues requests, and returns their order. */
async function order(wishes: readonly ({ readonly name: string } & SlotRequest)[]) {
  const slots = new RequestSlots(1, new ManualClock());
  const busy = Promise.withResolvers<void>();
  const seen: string[] = [];
  const all = [
    slots.run(() => busy.promise, {}),
    ...wishes.map(({ name, ...request }) => slots.run(async () => void seen.push(name), request)),
  ];
  busy.resolve();
  await Promise.all(all);
  return seen;
}

describe("RequestSlots", () => {
  it("lets requests go in the order they came, the urgent ones first", async () => {
    const wishes = [
      { name: "pod 1" },
      { name: "pod 2" },
      { name: "lease", isUrgent: true },
      { name: "pod 3" },
      { name: "node", isUrgent: true },
    ];
    assert.deepEqual(await order(wishes), ["lease", "node", "pod 1", "pod 2", "pod 3"]);
  });

  it("lets the others go on however many urgent ones come", async () => {
    // A client that sends made-up tokens to a kubelet API causes an urgent request for each.
    const wishes = [
      ...["pod 1", "pod 2"].map((name) => ({ name })),
      ...Array.from({ length: 12 }, (_, index) => ({ name: `token ${index}`, isUrgent: true })),
    ];
    const seen = await order(wishes);
    assert.deepEqual(seen.slice(0, 3), ["token 0", "token 1", "token 2"]);
    assert.ok(seen.indexOf("pod 2") < seen.indexOf("token 8"));
  });

  it("lets deferrable ones go last, but go on however many others come", async () => {
    const wishes = [
      ...["new 1", "new 2", "new 3"].map((name) => ({ name, isDeferrable: true })),
      ...Array.from({ length: 40 }, (_, index) => ({ name: `pod ${index}` })),
      { name: "lease", isUrgent: true, isDeferrable: true },
    ];
    const seen = await order(wishes);
    assert.deepEqual(seen.slice(0, 2), ["lease", "pod 0"]);
    assert.equal(seen.indexOf("new 1"), 32);
    assert.deepEqual(seen.slice(-2), ["new 2", "new 3"]);
  });

  it("runs as many as there are slots, and goes on after a failure", async () => {
    const slots = new RequestSlots(2, new ManualClock());
    let running = 0;
    let most = 0;
    const tasks = Array.from({ length: 6 }, (_, index) =>
      slots.run(async () => {
        most = Math.max(most, ++running);
        await new Promise(setImmediate);
        running--;
        if (index % 2 === 0) throw new Error("failed");
      }, {}),
    );
    const ends = await Promise.allSettled(tasks);
    assert.equal(ends.filter(({ status }) => status === "rejected").length, 3);
    assert.equal(most, 2);
  });

  it("does not start a request that was given up while it waited", async () => {
    const slots = new RequestSlots(1, new ManualClock());
    const busy = Promise.withResolvers<void>();
    const first = slots.run(() => busy.promise, {});
    const stop = new AbortController();
    let hasRun = false;
    const second = slots.run(async () => void (hasRun = true), { signal: stop.signal });
    stop.abort(new Error("stopped"));
    await assert.rejects(second, /stopped/, "at once, though the slot is busy");
    busy.resolve();
    await first;
    assert.equal(hasRun, false);
    await slots.run(async () => {}, {});
  });

  it("does not give turns to requests that were given up", async () => {
    const slots = new RequestSlots(1, new ManualClock());
    const busy = Promise.withResolvers<void>();
    const stop = new AbortController();
    const seen: string[] = [];
    const first = slots.run(() => busy.promise, {});
    const ask = async (name: string, isDeferrable: boolean, signal?: AbortSignal): Promise<void> =>
      await slots.run(async () => void seen.push(name), { isDeferrable, signal });
    const given = [1, 2, 3].map((n) => ask(`given up ${n}`, true, stop.signal));
    const rest = [ask("new", true), ...Array.from({ length: 100 }, () => ask("pod", false))];
    stop.abort(new Error("stopped"));
    await Promise.allSettled(given);
    busy.resolve();
    await Promise.all([first, ...rest]);
    assert.deepEqual([seen.length, seen.indexOf("new")], [101, 31]);
  });

  it("says how long the first of those that wait has waited, without what was given up", async () => {
    const clock = new ManualClock();
    const slots = new RequestSlots(1, clock);
    const busy = Promise.withResolvers<void>();
    const seen = [slots.longestWaitMs];
    const first = slots.run(() => busy.promise, {});
    seen.push(slots.longestWaitMs);
    const stop = new AbortController();
    const second = slots.run(async () => {}, { signal: stop.signal });
    await clock.advance(1000);
    const third = slots.run(async () => {}, { isUrgent: true });
    await clock.advance(1000);
    seen.push(slots.longestWaitMs);
    stop.abort(new Error("stopped"));
    await assert.rejects(second, /stopped/);
    seen.push(slots.longestWaitMs);
    busy.resolve();
    await Promise.all([first, third]);
    seen.push(slots.longestWaitMs);
    assert.deepEqual(seen, [0, 0, 2000, 1000, 0]);
  });
});

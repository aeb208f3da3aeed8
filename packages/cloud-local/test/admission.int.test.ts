import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import path from "node:path";
import { after, describe, it } from "node:test";
import { CloudError } from "@kip/cloud";
import type { LaunchRequest, LaunchWait } from "@kip/cloud";
import { machineRequest } from "./support/machine-request.ts";
import { prepareTestCloud } from "./support/test-cloud.ts";

const test = await prepareTestCloud("kiptadm", 8);
after(() => test.remove());
const MiB = 2 ** 20;
// A machine of local.nano takes 452 MiB, and one of local.micro 712 MiB.

const request = (name: string, changes: Partial<LaunchRequest> = {}): LaunchRequest =>
  machineRequest({ name, ...changes });

/** Waiting requests with their reports. Resolves once each has had one. */
function listener() {
  const told: LaunchWait[] = [];
  const first = Promise.withResolvers<void>();
  const onWait = (wait: LaunchWait): void => {
    told.push(wait);
    first.resolve();
  };
  return { told, onWait, waits: first.promise };
}

const queued = async (): Promise<number> =>
  (await readdir(path.join(test.options.stateDir, "queue"))).length;

describe("admission", { timeout: 120_000 }, () => {
  it("serves those who wait in the order in which they asked, a big one before later small ones", async () => {
    const limits = { memoryBytes: 1500 * MiB };
    await using cloud = await test.open(limits);
    const first = await cloud.launch(request("first"));
    const second = await cloud.launch(request("second"));
    const third = await cloud.launch(request("third"));
    const order: string[] = [];
    const [big, small] = [listener(), listener()];
    const createdAt = "2026-01-01T00:00:00Z";
    const bigLaunch = cloud
      .launch(request("big", { instanceType: "local.micro", createdAt, onWait: big.onWait }))
      .then((instance) => (order.push("big"), instance));
    await big.waits;
    assert.match(big.told[0]?.message ?? "", /needs \d+ MiB of memory.* place 1 in the queue\./);
    const smallLaunch = cloud
      .launch(request("small", { onWait: small.onWait }))
      .then((instance) => (order.push("small"), instance));
    await small.waits;
    // There are enough resources for a small one now, but they are kept for the big one.
    await cloud.terminate(first.id);
    await assert.rejects(cloud.launch(request("impatient")), (error) => {
      assert.ok(CloudError.is(error, "CLOUD_NO_CAPACITY"));
      return /2 older requests wait for memory/.test(String(error));
    });
    assert.deepEqual(order, []);
    // Another process frees the rest.
    await using other = await test.open(limits);
    await other.terminate(second.id);
    const bigOne = await bigLaunch;
    assert.deepEqual(order, ["big"]);
    await cloud.terminate(third.id);
    const smallOne = await smallLaunch;
    assert.deepEqual(order, ["big", "small"]);
    for (const { id } of [bigOne, smallOne]) await cloud.terminate(id);
  });

  it("lets a waiting one leave, and those behind it move up", async () => {
    await using cloud = await test.open({ memoryBytes: 1240 * MiB });
    const running = await cloud.launch(request("running"));
    const beside = await cloud.launch(request("beside"));
    const [big, small] = [listener(), listener()];
    const stop = new AbortController();
    const type = "local.micro";
    const left = cloud.launch(
      request("big", { instanceType: type, onWait: big.onWait }),
      stop.signal,
    );
    left.catch(() => {}); // awaited below
    await big.waits;
    const launch = cloud.launch(request("small", { onWait: small.onWait }));
    await small.waits;
    assert.equal(small.told[0]?.ahead, 1);
    stop.abort(new Error("The pod is gone"));
    await assert.rejects(left, /The pod is gone/);
    await cloud.terminate(running.id);
    for (const { id } of [beside, await launch]) await cloud.terminate(id);
    assert.equal(await queued(), 0);
  });

  it("starts so many at once, and more as these are up", async () => {
    await using cloud = await test.open({ startsAtOnce: 1 });
    const [second, third] = [listener(), listener()];
    const first = await cloud.launch(request("first"));
    const launches = [second, third].map(({ onWait }) => cloud.launch(request("next", { onWait })));
    await Promise.all([second.waits, third.waits]);
    assert.match(second.told[0]?.message ?? "", /^Other machines are starting; /);
    assert.equal(second.told[0]?.isTurn, true);
    // A machine that has ended is no longer starting.
    await cloud.terminate(first.id);
    const one = await Promise.race(launches);
    await cloud.terminate(one.id);
    for (const each of await Promise.all(launches)) await cloud.terminate(each.id);
    assert.equal(await queued(), 0);
  });

  it("forgets those whose process is gone", async () => {
    await using cloud = await test.open({ memoryBytes: 1240 * MiB });
    const running = await cloud.launch(request("running"));
    const beside = await cloud.launch(request("beside"));
    const waits = listener();
    const dying = await test.open({ memoryBytes: 1240 * MiB });
    const lost = dying.launch(request("lost", { onWait: waits.onWait }));
    lost.catch(() => {}); // awaited below
    await waits.waits;
    await dying[Symbol.asyncDispose]();
    await assert.rejects(lost, (error) => CloudError.is(error, "CLOUD_UNAVAILABLE"));
    assert.equal(await queued(), 2, "the starts of those that run are followed");
    for (const { id } of [running, beside]) await cloud.terminate(id);
    assert.equal(await queued(), 0);
  });
});

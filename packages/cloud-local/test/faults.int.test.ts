import assert from "node:assert/strict";
import { access } from "node:fs/promises";
import path from "node:path";
import { after, describe, it } from "node:test";
import { CloudError } from "@kip/cloud";
import type { Instance, InterruptionNotice, LaunchRequest } from "@kip/cloud";
import { openLocalFaults, withFaultInjection } from "../src/faults/index.ts";
import type { LocalCloud } from "../src/index.ts";
import { machineRequest } from "./support/machine-request.ts";
import { prepareTestCloud } from "./support/test-cloud.ts";

const test = await prepareTestCloud("kiptadv", 6);
const { stateDir } = test.options;
after(() => test.remove());

const request = (name = "faulty"): LaunchRequest =>
  machineRequest({
    name: `cell-${name}`,
    tags: { "kip-pod-namespace": "shop", "kip-pod-name": name },
  });

async function openWithFaults(): Promise<LocalCloud> {
  return await withFaultInjection(await test.open(), { stateDir });
}

describe("withFaultInjection()", { timeout: 120_000 }, () => {
  it("does what another process told, until it is cleared", async () => {
    await using cloud = await openWithFaults();
    const faults = openLocalFaults({ stateDir });
    await faults.noCapacity({ instanceType: "local.nano" });
    await faults.fail({ operation: "list", code: "CLOUD_UNAVAILABLE" });
    await assert.rejects(cloud.list(), (error) => CloudError.is(error, "CLOUD_UNAVAILABLE"));
    assert.deepEqual(await cloud.list(), []);
    const asked = request();
    await assert.rejects(cloud.launch(asked), (error) => CloudError.is(error, "CLOUD_NO_CAPACITY"));
    assert.equal((await faults.report()).rules.length, 1);
    await using restarted = await openWithFaults();
    await assert.rejects(restarted.launch(asked), (error) =>
      CloudError.is(error, "CLOUD_NO_CAPACITY"),
    );
    await faults.clear();
    assert.deepEqual((await faults.report()).rules, []);
    await assert.rejects(access(path.join(stateDir, "faults.json")));
    const { id } = await cloud.launch(asked);
    await cloud.terminate(id);
  });

  it("ends a machine as if by itself", async () => {
    await using cloud = await openWithFaults();
    const ended = Promise.withResolvers<Instance>();
    cloud.onTerminated(ended.resolve);
    const { id } = await cloud.launch(request());
    const faults = openLocalFaults({ stateDir });
    await faults.kill(id);
    assert.equal((await ended.promise).id, id);
    await assert.rejects(faults.kill(id), (error) => CloudError.is(error, "CLOUD_NOT_FOUND"));
  });

  it("gives notice once, to each listener, and then ends the machine", async () => {
    await using cloud = await openWithFaults();
    const faults = openLocalFaults({ stateDir });
    const instance = await cloud.launch(request());
    const heard: InterruptionNotice[] = [];
    const first = Promise.withResolvers<void>();
    cloud.onInterruption((notice) => {
      heard.push(notice);
      first.resolve();
    });
    const ended = Promise.withResolvers<Instance>();
    cloud.onTerminated(ended.resolve);
    await faults.interrupt(instance.id, 1500);
    await first.promise;
    const late = Promise.withResolvers<InterruptionNotice>();
    cloud.onInterruption(late.resolve);
    assert.deepEqual(await late.promise, heard[0]);
    assert.deepEqual(heard[0]?.instance, instance);
    const [notice] = (await faults.report()).notices;
    assert.equal(notice?.pod, "shop/faulty");
    assert.equal(notice.endsAt, heard[0]?.endsAt);
    await faults.clear();
    assert.equal((await ended.promise).id, instance.id);
    assert.ok(Date.now() >= Date.parse(notice.endsAt));
    assert.equal(heard.length, 1);
    assert.deepEqual((await faults.report()).notices, []);
  });

  it("keeps the time of a notice over a restart, also if it is over by then", async () => {
    const faults = openLocalFaults({ stateDir });
    const id = await (async () => {
      await using cloud = await openWithFaults();
      return (await cloud.launch(request())).id;
    })();
    await faults.interrupt(id, 1);
    await using cloud = await openWithFaults();
    const heard = Promise.withResolvers<InterruptionNotice>();
    cloud.onInterruption(heard.resolve);
    await cloud.waitForTerminated(id);
  });

  it("leaves a machine that came later under the same ID alone", async () => {
    await using cloud = await openWithFaults();
    const faults = openLocalFaults({ stateDir });
    const asked = request();
    const first = await cloud.launch(asked);
    await faults.interrupt(first.id, 500);
    await cloud.terminate(first.id);
    const second = await cloud.launch(asked);
    assert.equal(second.id, first.id);
    const other = await cloud.launch(request());
    await faults.interrupt(other.id, 600);
    await cloud.waitForTerminated(other.id);
    assert.equal((await cloud.describe(second.id))?.state, "running");
    await cloud.terminate(second.id);
  });

  it("finds a machine by its cell or pod, and says what is near", async () => {
    await using cloud = await openWithFaults();
    const faults = openLocalFaults({ stateDir });
    const { id } = await cloud.launch(request("web"));
    for (const word of [id, "cell-web", "web", "shop/web"])
      assert.equal((await faults.find(word)).id, id, word);
    await assert.rejects(faults.find("cell-wib"), { remedy: "Did you mean cell-web?" });
    const twin = { ...request("web"), name: "cell-twin" };
    const other = await cloud.launch({ ...twin, tags: { ...twin.tags, "kip-pod-namespace": "b" } });
    await assert.rejects(faults.find("web"), { remedy: "Name one of b/web, shop/web" });
    await cloud.terminate(id);
    await cloud.terminate(other.id);
    await assert.rejects(faults.find("web"), (error) => CloudError.is(error, "CLOUD_NOT_FOUND"));
  });
});

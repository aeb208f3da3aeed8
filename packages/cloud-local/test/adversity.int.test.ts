import assert from "node:assert/strict";
import { access } from "node:fs/promises";
import path from "node:path";
import { after, describe, it } from "node:test";
import { hasCode } from "@kip/base";
import type { Instance, InterruptionNotice, LaunchRequest } from "@kip/cloud";
import { openLocalAdversity, withAdversity } from "../src/adversity/index.ts";
import type { LocalCloud } from "../src/index.ts";
import { machineRequest } from "./support/machine-request.ts";
import { prepareTestCloud } from "./support/test-cloud.ts";

const test = await prepareTestCloud("kiptadv", 6);
const { stateDir } = test.options;
after(() => test.remove());

const request = (name = "troubled"): LaunchRequest =>
  machineRequest({
    name: `cell-${name}`,
    tags: { "kip-pod-namespace": "shop", "kip-pod-name": name },
  });

async function openAdverse(): Promise<LocalCloud> {
  return await withAdversity(await test.open(), { stateDir });
}

describe("withAdversity()", { timeout: 120_000 }, () => {
  it("does what another process told, until it is cleared", async () => {
    await using cloud = await openAdverse();
    const adversity = openLocalAdversity({ stateDir });
    await adversity.noCapacity({ instanceType: "local.nano" });
    await adversity.fail({ operation: "list", code: "CLOUD_UNAVAILABLE" });
    await assert.rejects(cloud.list(), (error) => hasCode(error, "CLOUD_UNAVAILABLE"));
    assert.deepEqual(await cloud.list(), []);
    const asked = request();
    await assert.rejects(cloud.launch(asked), (error) => hasCode(error, "CLOUD_NO_CAPACITY"));
    assert.equal((await adversity.report()).rules.length, 1);
    await using restarted = await openAdverse();
    await assert.rejects(restarted.launch(asked), (error) => hasCode(error, "CLOUD_NO_CAPACITY"));
    await adversity.clear();
    assert.deepEqual((await adversity.report()).rules, []);
    await assert.rejects(access(path.join(stateDir, "adversity.json")));
    const { id } = await cloud.launch(asked);
    await cloud.terminate(id);
  });

  it("ends a machine as if by itself", async () => {
    await using cloud = await openAdverse();
    const ended = Promise.withResolvers<Instance>();
    cloud.onTerminated(ended.resolve);
    const { id } = await cloud.launch(request());
    const adversity = openLocalAdversity({ stateDir });
    await adversity.kill(id);
    assert.equal((await ended.promise).id, id);
    await assert.rejects(adversity.kill(id), (error) => hasCode(error, "CLOUD_NOT_FOUND"));
  });

  it("gives notice once, to whoever listens, and then ends the machine", async () => {
    await using cloud = await openAdverse();
    const adversity = openLocalAdversity({ stateDir });
    const instance = await cloud.launch(request());
    const heard: InterruptionNotice[] = [];
    const first = Promise.withResolvers<void>();
    cloud.onInterruption((notice) => {
      heard.push(notice);
      first.resolve();
    });
    const ended = Promise.withResolvers<Instance>();
    cloud.onTerminated(ended.resolve);
    await adversity.interrupt(instance.id, 1500);
    await first.promise;
    const late = Promise.withResolvers<InterruptionNotice>();
    cloud.onInterruption(late.resolve);
    assert.deepEqual(await late.promise, heard[0]);
    assert.deepEqual(heard[0]?.instance, instance);
    const [notice] = (await adversity.report()).notices;
    assert.equal(notice?.pod, "shop/troubled");
    assert.equal(notice.endsAt, heard[0]?.endsAt);
    await adversity.clear();
    assert.equal((await ended.promise).id, instance.id);
    assert.ok(Date.now() >= Date.parse(notice.endsAt));
    assert.equal(heard.length, 1);
    assert.deepEqual((await adversity.report()).notices, []);
  });

  it("keeps the time of a notice over a restart, also if it is over by then", async () => {
    const adversity = openLocalAdversity({ stateDir });
    const id = await (async () => {
      await using cloud = await openAdverse();
      return (await cloud.launch(request())).id;
    })();
    await adversity.interrupt(id, 1);
    await using cloud = await openAdverse();
    const heard = Promise.withResolvers<InterruptionNotice>();
    cloud.onInterruption(heard.resolve);
    await cloud.waitForTerminated(id);
  });

  it("leaves a machine that came later under the same ID alone", async () => {
    await using cloud = await openAdverse();
    const adversity = openLocalAdversity({ stateDir });
    const asked = request();
    const first = await cloud.launch(asked);
    await adversity.interrupt(first.id, 500);
    await cloud.terminate(first.id);
    const second = await cloud.launch(asked);
    assert.equal(second.id, first.id);
    const other = await cloud.launch(request());
    await adversity.interrupt(other.id, 600);
    await cloud.waitForTerminated(other.id);
    assert.equal((await cloud.describe(second.id))?.state, "running");
    await cloud.terminate(second.id);
  });

  it("finds a machine by its cell or pod, and says what is near", async () => {
    await using cloud = await openAdverse();
    const adversity = openLocalAdversity({ stateDir });
    const { id } = await cloud.launch(request("web"));
    for (const word of [id, "cell-web", "web", "shop/web"])
      assert.equal((await adversity.find(word)).id, id, word);
    await assert.rejects(adversity.find("cell-wib"), { remedy: "Did you mean cell-web?" });
    const twin = { ...request("web"), name: "cell-twin" };
    const other = await cloud.launch({ ...twin, tags: { ...twin.tags, "kip-pod-namespace": "b" } });
    await assert.rejects(adversity.find("web"), { remedy: "Name one of b/web, shop/web" });
    await cloud.terminate(id);
    await cloud.terminate(other.id);
    await assert.rejects(adversity.find("web"), (error) => hasCode(error, "CLOUD_NOT_FOUND"));
  });
});

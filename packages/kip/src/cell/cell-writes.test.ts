import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { K8sError } from "@kip/k8s-client";
import { ManualClock } from "@kip/testing";
import { CellStore } from "../store/cell-store.ts";
import type { CellPhase } from "../state/cell.ts";
import { KipLife, KipWorld, pass, poolOf } from "../testing/kip-life.ts";

/** Makes the first write of this phase fail. */
function failFirstWrite(t: TestContext, phase: CellPhase): void {
  const writeStatus = Reflect.get(CellStore.prototype, "writeStatus");
  let failures = 0;
  const failing: typeof writeStatus = async function (this: CellStore, cell, status) {
    if (status.phase === phase && failures++ === 0)
      throw new K8sError("K8S_UNAVAILABLE", "no answer", { retryable: true });
    await writeStatus.call(this, cell, status);
  };
  t.mock.method(CellStore.prototype, "writeStatus", failing);
}

/** The status of the only Cell in the API. */
function statusIn(world: KipWorld) {
  const [cell] = world.api.cells.values();
  return cell?.status;
}

/** A kip whose pod waits for the cloud's quota for some attempts, and then for an agent that does not respond. */
async function startBehindQuota(): Promise<{ readonly world: KipWorld; readonly life: KipLife }> {
  const world = new KipWorld(new ManualClock());
  world.agents.isAnswering = false;
  await world.cloud.faults.fail({ operation: "launch", code: "CLOUD_QUOTA", calls: 2 });
  const life = new KipLife(world);
  await life.start();
  world.addPod("p", "100m");
  life.apply("p");
  return { world, life };
}

async function untilLaunched(world: KipWorld): Promise<void> {
  for (let n = 0; n < 6000 && (await world.driver.list()).length === 0; n++)
    await pass(world, 100, 100);
}

describe("the life of a Cell", { timeout: 60_000 }, () => {
  for (const [watch, watchLag] of [
    ["after", 1],
    ["before", 0],
  ] as const)
    it(`is four writes without the times of its start, with the watch ${watch} the answer to its creation`, async () => {
      const world = new KipWorld(new ManualClock(), 500);
      const writes: string[] = [];
      world.api.watchers.add(({ type, cell: { metadata, status } }) => {
        const isEnding = metadata.deletionTimestamp !== undefined;
        const phase = status?.phase ?? "no phase";
        writes.push(type === "deleted" ? "deleted" : isEnding ? "deletion asked for" : phase);
      });
      const life = new KipLife(world, { watchLag });
      await life.start();
      world.addPod("p", "100m");
      life.apply("p");
      await pass(world, 15_000, 100);
      assert.deepEqual(world.agents.pods(), ["p"]);
      world.pods.delete("p");
      await life.sweep();
      await pass(world, 5000, 100);
      await life.kill();
      assert.deepEqual(writes, ["no phase", "Claimed", "deletion asked for", "deleted"]);
    });

  it("has a phase of its start in the API only if that lasts ten seconds", async () => {
    const world = new KipWorld(new ManualClock());
    world.agents.isAnswering = false;
    const life = new KipLife(world);
    await life.start();
    world.addPod("p", "100m");
    life.apply("p");
    await pass(world, 8000, 100);
    assert.equal((await world.driver.list())[0]?.state, "running");
    assert.equal(statusIn(world)?.phase, undefined);
    await pass(world, 5000, 100);
    await life.kill();
    assert.equal(statusIn(world)?.phase, "Booting");
  });

  it("has in the API a second after the launch that it waits for the cloud's quota no longer", async () => {
    const { world, life } = await startBehindQuota();
    const reason = () =>
      statusIn(world)?.conditions?.find(({ status }) => status === "False")?.reason;
    await pass(world, 2000, 100);
    assert.equal(reason(), "CloudQuota");
    await untilLaunched(world);
    await pass(world, 1200, 100);
    await life.kill();
    assert.equal((await world.driver.list()).length, 1);
    assert.notEqual(reason(), "CloudQuota");
  });

  it("goes on as a standby cell that a pod may take, though its first write of that fails", async (t) => {
    const world = new KipWorld(new ManualClock());
    world.pools = [poolOf("sim.1", 1)];
    failFirstWrite(t, "Ready");
    const life = new KipLife(world);
    await life.start();
    await pass(world, 30_000);
    assert.equal(statusIn(world)?.phase, "Ready");
    await life.kill();
  });

  it("has in the API that it ends, though the first write of that fails", async (t) => {
    const world = new KipWorld(new ManualClock(), 3_600_000);
    const life = new KipLife(world);
    await life.start();
    world.addPod("p", "100m");
    life.apply("p");
    await pass(world, 15_000);
    failFirstWrite(t, "Terminating");
    world.pods.delete("p");
    await life.sweep();
    await pass(world, 30_000);
    await life.kill();
    assert.equal(statusIn(world)?.phase, "Terminating");
  });

  it("keeps its instance's ID in the API if another client changes the Cell as a new kip finds the instance", async () => {
    const { world, life } = await startBehindQuota();
    await untilLaunched(world);
    await life.kill();
    const next = new KipLife(world);
    await next.start();
    await pass(world, 100, 100);
    const [name = ""] = world.api.cells.keys();
    const user = world.api.client(async (effect) => effect());
    const labels = { metadata: { labels: { a: "b" } } };
    await user.patch(`/apis/kip.elotl.co/v1beta1/cells/${name}`, labels, "merge");
    await pass(world, 500, 100);
    world.agents.setReachable(name, true);
    await pass(world, 60_000);
    await next.kill();
    const [instance] = await world.driver.list();
    assert.ok(instance);
    assert.equal(statusIn(world)?.instanceID, instance.id);
    assert.match(statusIn(world)?.conditions?.[0]?.message ?? "", /^Instance "(?!undefined)/);
  });
});

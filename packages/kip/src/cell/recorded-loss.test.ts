import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { K8sError } from "@kip/k8s-client";
import { ManualClock } from "@kip/testing";
import { CellStore } from "../store/cell-store.ts";
import { KipLife, KipWorld, pass } from "../testing/kip-life.ts";

/** A pod that is running on its cell. */
async function running(world: KipWorld): Promise<KipLife> {
  const life = new KipLife(world);
  await life.start();
  world.addPod("p", "100m");
  life.apply("p");
  await pass(world, 15_000);
  assert.deepEqual(world.agents.pods(), ["p"]);
  return life;
}

/** Makes the agent of the only cell unreachable. */
async function loseAgent(world: KipWorld): Promise<string> {
  const [instance] = await world.driver.list();
  assert.ok(instance);
  world.agents.setReachable(instance.name, false);
  return instance.id;
}

async function deleteAsUser(world: KipWorld): Promise<void> {
  const [name] = world.api.cells.keys();
  const client = world.api.client(async (effect) => effect());
  await client.delete(`/apis/kip.elotl.co/v1beta1/cells/${name}`, {});
}

/** The phases in the API when each Cell's deletion was first seen. */
function phasesAtDeletion(world: KipWorld): readonly unknown[] {
  const seen = new Set<string>();
  const phases: unknown[] = [];
  world.api.watchers.add(({ cell: { metadata, status } }) => {
    if (metadata.deletionTimestamp === undefined || seen.has(metadata.uid)) return;
    seen.add(metadata.uid);
    phases.push(status?.phase);
  });
  return phases;
}

describe("the end of a cell whose agent is out of reach", { timeout: 60_000 }, () => {
  for (const isByUser of [false, true])
    it(`is a phase of the Cell while its instance ends, ${isByUser ? "also if" : "if no"} user deleted it`, async () => {
      const world = new KipWorld(new ManualClock(), 120_000);
      const life = await running(world);
      const id = await loseAgent(world);
      if (isByUser) await deleteAsUser(world);
      await pass(world, 75_000);
      assert.equal((await world.driver.describe(id))?.state, "stopping");
      const [cell] = world.api.cells.values();
      await life.kill();
      assert.equal(cell?.status?.phase, "Terminating");
    });

  it("is a phase of the Cell before its deletion is asked for: the next kip waits for no agent", async () => {
    const world = new KipWorld(new ManualClock());
    const phases = phasesAtDeletion(world);
    const life = await running(world);
    await loseAgent(world);
    await pass(world, 60_000);
    await life.kill();
    assert.deepEqual(phases, ["Terminating"]);
  });

  it("is its deletion alone if the cell had no pod", async () => {
    const world = new KipWorld(new ManualClock());
    world.agents.isAnswering = false;
    const phases = phasesAtDeletion(world);
    const life = new KipLife(world);
    await life.start();
    world.addPod("p", "100m");
    life.apply("p");
    await pass(world, 15_000);
    world.pods.delete("p");
    await life.sweep();
    await pass(world, 5000);
    await life.kill();
    assert.deepEqual(phases, ["Booting"]);
  });

  it("has its deletion in the API although the API server refuses the status", async (t) => {
    const world = new KipWorld(new ManualClock());
    const phases = phasesAtDeletion(world);
    const life = await running(world);
    await loseAgent(world);
    const writeStatus = Reflect.get(CellStore.prototype, "writeStatus");
    const refuse: typeof writeStatus = async function (this: CellStore, cell, status) {
      if (status.phase === "Terminating") throw new K8sError("K8S_FORBIDDEN", "a webhook refuses");
      await writeStatus.call(this, cell, status);
    };
    t.mock.method(CellStore.prototype, "writeStatus", refuse);
    const asked = t.mock.method(CellStore.prototype, "markDeleted").mock;
    await pass(world, 60_000);
    await life.kill();
    assert.equal(asked.callCount(), 1);
    assert.deepEqual(phases, ["Claimed"]);
  });
});

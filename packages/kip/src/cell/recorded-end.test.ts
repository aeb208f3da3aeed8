import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { K8sError } from "@kip/k8s-client";
import { ManualClock } from "@kip/testing";
import { CellStore } from "../store/cell-store.ts";
import { KipLife, KipWorld, pass, poolOf } from "../testing/kip-life.ts";

/**
 * A world that records, for each requested end of an instance, whether the Cell's deletion was requested in the API by then.
 */
function watchedWorld(stopMs?: number, hooks: { onEnd?: () => Promise<void> } = {}) {
  const world = new KipWorld(new ManualClock(), stopMs);
  const ends: boolean[] = [];
  const { driver } = world;
  const terminate = async (id: string): Promise<void> => {
    const instance = await driver.describe(id);
    const cell = [...world.api.cells.values()].find(
      (each) => each.metadata.uid === instance?.token,
    );
    ends.push(cell?.metadata.deletionTimestamp !== undefined);
    await (hooks.onEnd?.() ?? driver.terminate(id));
  };
  const watched = new Proxy(driver, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== "function") return value;
      return name === "terminate" ? terminate : (value.bind(target) as unknown);
    },
  });
  return { world: Object.assign(world, { driver: watched }), ends };
}

describe("the end of a cell", { timeout: 60_000 }, () => {
  it("is in the API before the cloud is asked for it", async () => {
    const { world, ends } = watchedWorld();
    const life = new KipLife(world);
    await life.start();
    world.addPod("p", "100m");
    life.apply("p");
    await pass(world, 5000);
    assert.deepEqual(world.agents.pods(), ["p"]);
    world.pods.delete("p");
    await life.sweep();
    await pass(world, 10_000);
    await life.kill();
    assert.deepEqual(ends, [true]);
    assert.equal(world.api.cells.size, 0);
  });

  for (const stopMs of [1500, 13_000])
    it(`is a phase of the Cell if it takes longer than ten seconds, here ${stopMs} ms`, async (t) => {
      const { world, ends } = watchedWorld(stopMs);
      const life = new KipLife(world);
      await life.start();
      world.addPod("p", "100m");
      life.apply("p");
      await pass(world, 5000);
      const { mock } = t.mock.method(CellStore.prototype, "writeStatus");
      world.pods.delete("p");
      await life.sweep();
      await pass(world, 20_000, 100);
      await life.kill();
      const written = mock.calls.map(({ arguments: [, status] }) => status.phase);
      assert.deepEqual(ends, [true]);
      assert.equal(written.includes("Terminating"), stopMs > 10_000);
      assert.equal(world.api.cells.size, 0);
    });

  it("of a cell out of reach goes on at once when kip is killed after it asked for the deletion", async () => {
    const hooks: { onEnd?: () => Promise<void> } = {};
    const { world, ends } = watchedWorld(undefined, hooks);
    const { driver } = world;
    const life = new KipLife(world);
    await life.start();
    world.addPod("p", "100m");
    life.apply("p");
    await pass(world, 15_000);
    const [first] = await driver.list();
    assert.ok(first);
    world.agents.setReachable(first.name, false);
    hooks.onEnd = async () => await life.kill();
    await pass(world, 60_000);
    assert.ok(life.isDead);
    assert.equal((await driver.describe(first.id))?.state, "running");
    delete hooks.onEnd;
    const next = new KipLife(world);
    await next.start();
    await pass(world, 3000);
    assert.notEqual((await driver.describe(first.id))?.state, "running");
    assert.deepEqual(ends, [true, true]);
    await next.kill();
  });

  it("is asked for although the API server refuses the deletion", async (t) => {
    const { world, ends } = watchedWorld();
    const life = new KipLife(world);
    await life.start();
    world.addPod("p", "100m");
    life.apply("p");
    await pass(world, 5000);
    t.mock.method(CellStore.prototype, "markDeleted", async () => {
      throw new K8sError("K8S_FORBIDDEN", "admission webhook denied the request");
    });
    world.pods.delete("p");
    await life.sweep();
    await pass(world, 10_000);
    await life.kill();
    assert.equal(ends.length, 1);
    assert.equal(world.api.cells.size, 0);
  });

  it("is not asked for while the API cannot be written, as by a kip whose turn is over", async (t) => {
    const { world, ends } = watchedWorld();
    world.pools = [poolOf("sim.1", 1)];
    const life = new KipLife(world);
    await life.start();
    await pass(world, 3000);
    const write = t.mock.method(CellStore.prototype, "markDeleted", async () => {
      throw new K8sError("K8S_LEASE_LOST", "another process may lead now");
    });
    const [cell] = await world.driver.list();
    world.agents.setReachable(cell?.name ?? "", false);
    await pass(world, 60_000);
    assert.deepEqual(ends, []);
    write.mock.restore();
    await pass(world, 300_000, 5000);
    await life.kill();
    assert.deepEqual(ends, [true]);
  });
});

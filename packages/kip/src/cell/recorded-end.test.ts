import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { K8sError } from "@kip/k8s-client";
import { ManualClock } from "@kip/testing";
import { CellStore } from "../store/cell-store.ts";
import { KipLife, KipWorld, pass, poolOf } from "../testing/kip-life.ts";

/** A world in which each end that is asked for is noted with what the API says of the Cell then. */
function watchedWorld() {
  const world = new KipWorld(new ManualClock());
  const phases: (string | undefined)[] = [];
  const { driver } = world;
  const terminate = async (id: string): Promise<void> => {
    const instance = await driver.describe(id);
    const cell = [...world.api.cells.values()].find(
      (each) => each.metadata.uid === instance?.token,
    );
    phases.push(cell?.status?.phase);
    await driver.terminate(id);
  };
  const watched = new Proxy(driver, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== "function") return value;
      return name === "terminate" ? terminate : (value.bind(target) as unknown);
    },
  });
  return { world: Object.assign(world, { driver: watched }), phases };
}

describe("the end of a cell", { timeout: 60_000 }, () => {
  it("is in the API before the cloud is asked for it", async () => {
    const { world, phases } = watchedWorld();
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
    assert.deepEqual(phases, ["Terminating"]);
    assert.equal(world.api.cells.size, 0);
  });

  it("is asked for although the API server refuses the status", async (t) => {
    const { world, phases } = watchedWorld();
    const life = new KipLife(world);
    await life.start();
    world.addPod("p", "100m");
    life.apply("p");
    await pass(world, 5000);
    t.mock.method(CellStore.prototype, "writeStatus", async () => {
      throw new K8sError("K8S_INVALID", "status: Too long");
    });
    world.pods.delete("p");
    await life.sweep();
    await pass(world, 10_000);
    await life.kill();
    assert.equal(phases.length, 1);
    assert.equal(world.api.cells.size, 0);
  });

  it("is not asked for while the API cannot be written, as by a kip whose turn is over", async (t) => {
    const { world, phases } = watchedWorld();
    world.pools = [poolOf("sim.1", 1)];
    const life = new KipLife(world);
    await life.start();
    await pass(world, 3000);
    const write = t.mock.method(CellStore.prototype, "writeStatus", async () => {
      throw new K8sError("K8S_LEASE_LOST", "another process may lead now");
    });
    const [cell] = await world.driver.list();
    world.agents.setReachable(cell?.name ?? "", false);
    await pass(world, 60_000);
    assert.deepEqual(phases, []);
    write.mock.restore();
    await pass(world, 300_000, 5000);
    await life.kill();
    assert.deepEqual(phases, ["Terminating"]);
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CloudError, wrapOperations } from "@kip/cloud";
import { ManualClock } from "@kip/testing";
import { KipLife, KipWorld, pass } from "../testing/kip-life.ts";

/** A pod that is running on its cell. */
async function running(world: KipWorld): Promise<KipLife> {
  const life = new KipLife(world);
  await life.start();
  world.addPod("p", "100m");
  life.apply("p");
  await pass(world, 5000);
  return life;
}

describe("an instance that takes long to end", () => {
  it("keeps its pod from a second one, also when kip is started again meanwhile", async () => {
    const world = new KipWorld(new ManualClock(), 120_000);
    const first = await running(world);
    assert.deepEqual(world.agents.pods(), ["p"]);
    const [instance] = await world.driver.list();
    // The machine's network is cut while its containers keep running. Kip gives it up after a while.
    world.agents.setReachable(instance?.name ?? "", false);
    await pass(world, 32_000);
    assert.equal((await world.driver.list())[0]?.state, "stopping");
    await first.kill();

    const second = new KipLife(world);
    await second.start();
    for (let seconds = 0; seconds < 100; seconds++) {
      await pass(world, 1000);
      const names = (await world.driver.list()).map(({ name }) => name);
      if (names.includes(instance?.name ?? "")) assert.equal(names.length, 1, names.join(" "));
    }
    await pass(world, 60_000);
    assert.deepEqual(world.agents.pods(), ["p"]);
    await second.kill();
  });

  it("gets the pod another type if the cloud had no capacity after all", async () => {
    const world = new KipWorld(new ManualClock());
    const driver = wrapOperations(world.driver, ["waitForRunning"], async (_name, call, [id]) => {
      const instance = await world.driver.describe(String(id));
      if (instance?.instanceType !== "sim.1") return await call(id);
      await world.cloud.faults.kill(instance.id);
      const scope = { instanceType: "sim.1" };
      throw new CloudError("CLOUD_NO_CAPACITY", "There was no machine left", { scope });
    });
    Object.assign(world, { driver });
    const life = await running(world);
    await pass(world, 60_000);
    assert.deepEqual(world.agents.pods(), ["p"]);
    assert.deepEqual(
      (await world.driver.list()).map(({ instanceType }) => instanceType),
      ["sim.2"],
    );
    await life.kill();
  });
});

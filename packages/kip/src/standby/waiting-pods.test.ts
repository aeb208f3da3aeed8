import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ManualClock } from "@kip/testing";
import { KipLife, KipWorld, pass, poolOf } from "../testing/kip-life.ts";

const refusals = {
  capacity: async ({ cloud }: KipWorld) => await cloud.faults.noCapacity({}),
  "a quota": async ({ cloud }: KipWorld) =>
    await cloud.faults.fail({ operation: "launch", code: "CLOUD_QUOTA", calls: 1000 }),
};

describe("a pod that waits for a machine", () => {
  for (const [what, refuse] of Object.entries(refusals))
    it(`takes the standby cell that becomes ready, the oldest pod first; it waits for ${what}`, async () => {
      const world = new KipWorld(new ManualClock());
      world.pools = [poolOf("sim.1", 1)];
      const life = new KipLife(world);
      await life.start();
      await pass(world, 200, 100);
      assert.equal((await world.driver.list())[0]?.state, "pending");
      await refuse(world);
      world.addPod("old", "100m");
      await pass(world, 100, 100);
      world.addPod("young", "100m");
      for (const uid of ["young", "old"]) life.apply(uid);
      await pass(world, 200, 100);
      assert.deepEqual(world.agents.pods(), []);
      await pass(world, 3000);
      assert.deepEqual(world.agents.pods(), ["old"]);
      await life.kill();
    });
});

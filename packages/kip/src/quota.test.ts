import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { ManualClock } from "@kip/testing";
import { FaultWorld } from "./testing/faults/fault-world.ts";
import { mockWhatTakesTime } from "./testing/faults/what-takes-time.ts";

describe("kip above the quota of its cloud", () => {
  before(mockWhatTakesTime);

  it("launches again as soon as a machine has ended by itself", async () => {
    const world = new FaultWorld(new ManualClock(), {
      seed: 1,
      lagMs: 0,
      callMs: 0,
      replicas: 1,
      maxInstances: 1,
    });
    await world.pass(2000);
    const pod = { policy: "Never", cpu: "100m", graceSeconds: 2, isDeaf: false } as const;
    await world.createPod(pod);
    await world.pass(10_000);
    await world.createPod(pod);
    await world.pass(400_000, 5000);
    const [first] = world.machines.all();
    assert.ok(first);
    await world.cloud.faults.kill(first.instance.id);
    await world.pass(20_000);
    assert.equal(world.figures.runs, 2, "the second pod runs");
    await world.stop();
  });
});

import assert from "node:assert/strict";
import { before, it } from "node:test";
import { cloudOperations, wrapOperations } from "@kip/cloud";
import { ManualClock } from "@kip/testing";
import { FaultWorld } from "./testing/faults/fault-world.ts";
import { mockWhatTakesTime } from "./testing/faults/what-takes-time.ts";

before(mockWhatTakesTime);

it("kip without pods asks the cloud for its network with each ping, and for its instances every 45 s", async () => {
  const counts = new Map<string, number>();
  const world = new FaultWorld(new ManualClock(), { seed: 1, lagMs: 0, callMs: 0, replicas: 1 });
  const { openDriver } = world;
  Object.assign(world, {
    openDriver: () =>
      wrapOperations(openDriver(), cloudOperations, async (operation, call, args) => {
        counts.set(operation, (counts.get(operation) ?? 0) + 1);
        return await call(...args);
      }),
  });
  world.processOf(0).gate.kill(); // the next process uses this driver
  await world.pass(10_000);
  counts.clear();
  await world.pass(900_000);
  await world.stop();
  // docs/aws.md lists the resulting EC2 calls.
  assert.deepEqual(Object.fromEntries(counts), { list: 20, networkFacts: 90 });
});

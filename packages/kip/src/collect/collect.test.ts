import assert from "node:assert/strict";
import { describe, it, mock } from "node:test";
import { ManualClock } from "@kip/testing";
import { CellStore } from "../store/cell-store.ts";
import { FaultWorld } from "../testing/faults/fault-world.ts";
import { mockWhatTakesTime } from "../testing/faults/what-takes-time.ts";

const machine = { instanceType: "sim.1", launchType: "on-demand", image: "cell" } as const;

describe("a running kip", () => {
  it("ends the cells of another node of its installation that is gone", async () => {
    mockWhatTakesTime();
    const world = new FaultWorld(new ManualClock(), { seed: 1, lagMs: 0, callMs: 0, replicas: 1 });
    try {
      await world.pass(2000);
      const { metadata } = await new CellStore(world.api.client).create({
        ...machine,
        rootDiskBytes: 0,
        podRef: { namespace: "default", name: "web", uid: "of-a-pod-that-is-gone" },
        nodeName: "gone",
        controllerID: "kip",
        privateIPOnly: true,
        pricePerHour: 0,
        attempt: 0,
        restartCounts: {},
      });
      await world.cloud.open({ owner: "kip" }).launch({
        ...machine,
        rootDiskBytes: 0,
        token: metadata.uid,
        name: metadata.name,
        userData: new Uint8Array(),
        privateIpOnly: true,
        tags: {},
      });
      await world.pass(600_000, 5000);
      assert.equal(world.api.cells().length, 1, "it may come back");
      await world.pass(600_000, 5000);
      assert.deepEqual(world.api.cells(), []);
      assert.deepEqual(await world.instances(), []);
    } finally {
      await world.stop();
      mock.restoreAll();
    }
  });
});

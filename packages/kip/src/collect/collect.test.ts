import assert from "node:assert/strict";
import { describe, it, mock } from "node:test";
import { silentLogger } from "@kip/base";
import { createSimulatedCloud } from "@kip/cloud/simulated";
import { eventually, ManualClock } from "@kip/testing";
import { CellStore } from "../store/cell-store.ts";
import { ApiServer } from "../testing/faults/api-server.ts";
import { FaultWorld } from "../testing/faults/fault-world.ts";
import { mockWhatTakesTime } from "../testing/faults/what-takes-time.ts";
import { testHost, testHosts } from "../testing/test-hosts.ts";
import { collect } from "./collect.ts";
import { OrphanInstances } from "./orphan-instances.ts";

const machine = { instanceType: "sim.1", launchType: "on-demand", image: "cell" } as const;

describe("collect()", () => {
  it("gives back dedicated hosts without instances", { timeout: 20_000 }, async () => {
    const clock = new ManualClock();
    const hosts = testHosts(testHost("h-1"), testHost("h-2", ["i-1"]));
    await using driver = Object.assign(createSimulatedCloud().open({ owner: "kip" }), { hosts });
    const ending = new AbortController();
    const ended = collect({
      client: new ApiServer(clock).client,
      driver,
      clock,
      logger: silentLogger,
      nodeName: "node",
      controllerID: "kip",
      orphans: new OrphanInstances({
        driver,
        clusterID: "kip",
        store: { list: async () => await Promise.resolve([]) },
        metrics: { orphanTermination: () => {} },
        clock,
        logger: silentLogger,
      }),
      provider: { askCloud: async () => {}, hasWorker: () => false, freeCell: () => {} },
      cells: () => [],
      knownCells: () => [],
      healthMs: () => undefined,
      signal: ending.signal,
    });
    await eventually(() => hosts.releases === 1);
    assert.deepEqual(hosts.hosts, [testHost("h-2", ["i-1"])]);
    hosts.hosts = [testHost("h-2")];
    while (hosts.releases === 1) await clock.advance(5000);
    assert.deepEqual(hosts.hosts, []);
    ending.abort();
    await ended;
  });
});

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

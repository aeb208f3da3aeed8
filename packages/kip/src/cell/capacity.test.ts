import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import { ManualClock } from "@kip/testing";
import { settle } from "../testing/kip-life.ts";
import type { CellSpec } from "../state/cell.ts";
import { LaunchLife, LaunchWorld } from "../testing/launch-life.ts";

describe("a Cell whose request waits for thousands of others", () => {
  it("is not written for a pod that is removed meanwhile, which does not wait for it", async () => {
    const world = new LaunchWorld(new ManualClock());
    const { promise, resolve } = Promise.withResolvers<void>();
    world.sendable = promise;
    const life = new LaunchLife(world);
    const removed = life.run("removed");
    life.run("other");
    await settle();
    removed.remove(30);
    await removed.settled;
    resolve();
    await settle();
    assert.deepEqual([...world.cells.keys()], ["cell-other"]);
    await life.kill();
  });
});

describe("a launch that can never succeed", () => {
  const huge = { annotations: { "pod.elotl.co/volume-size": "99Ti" } };

  it("is made with other values when the pod's annotation has been corrected", async () => {
    const world = new LaunchWorld(new ManualClock());
    world.mostDiskBytes = 2 ** 40;
    const life = new LaunchLife(world);
    const worker = life.run("a", huge);
    await settle();
    assert.match(life.why("a") ?? "", /No disk is that large/);
    assert.deepEqual(await life.machines(), []);
    worker.apply(life.resolved("a", { annotations: { "pod.elotl.co/volume-size": "99Gi" } }));
    await settle();
    assert.deepEqual(await life.machines(), ["a sim.1"], life.why("a"));
    assert.equal(world.cells.size, 1);
    await life.kill();
  });

  it("is repeated with longer and longer pauses while nothing is corrected, with one Cell", async () => {
    const world = new LaunchWorld(new ManualClock());
    world.mostDiskBytes = 2 ** 40;
    const life = new LaunchLife(world);
    const worker = life.run("a", huge);
    for (const created of [1, 2]) {
      for (let minute = 0; minute < 30; minute++) {
        await world.clock.advance(60_000);
        await settle();
      }
      assert.equal(world.created, created);
      worker.apply(life.resolved("a", { annotations: { "pod.elotl.co/volume-size": "98Ti" } }));
      await settle();
    }
    await life.kill();
  });

  it("does not count as the end of an outage when it is given up for another machine", async () => {
    const images = { cell: 2 ** 20, newer: 2 ** 20 };
    const world = new LaunchWorld(new ManualClock(), { images });
    await world.cloud.faults.fail({ operation: "launch", code: "CLOUD_AUTH", calls: 10_000 });
    const life = new LaunchLife(world);
    for (let n = 0; n < 20; n++) life.run(`p${n}`);
    const pass = async (seconds: number): Promise<void> => {
      for (let tens = 0; tens < seconds / 10; tens++) {
        await world.clock.advance(10_000);
        await settle();
      }
    };
    await pass(600); // the pauses have grown to minutes
    assert.equal(world.created, 20);
    world.image = "newer";
    await pass(30);
    assert.ok(world.created <= 30, `${world.created} Cells`);
    await life.kill();
  });

  it("is made again at once when the configuration has been corrected", async () => {
    const world = new LaunchWorld(new ManualClock());
    world.image = "none";
    const life = new LaunchLife(world);
    const worker = life.run("a");
    const pass = async (minutes: number): Promise<void> => {
      for (let minute = 0; minute < minutes; minute++) {
        await world.clock.advance(60_000);
        await settle();
      }
    };
    await pass(30);
    assert.match(life.why("a") ?? "", /none/);
    world.image = "cell";
    await settle();
    assert.deepEqual(await life.machines(), [], "the pause has grown to minutes");
    worker.retryStart();
    await settle();
    assert.deepEqual(await life.machines(), ["a sim.1"]);
    await life.kill();
  });
});

/** Asserts that all pods start when there is capacity again. */
async function endShortage(
  world: LaunchWorld,
  life: LaunchLife,
  expected: { readonly machines: number },
): Promise<void> {
  await world.cloud.faults.clear();
  await world.clock.advance(60_000);
  await settle();
  assert.equal((await life.machines()).length, expected.machines);
  await life.kill();
}

describe("a cloud without capacity", () => {
  it("gives a pod the next best type at once, and remembers that for others", async () => {
    const world = new LaunchWorld(new ManualClock());
    await world.cloud.faults.noCapacity({ instanceType: "sim.1" });
    const life = new LaunchLife(world);
    life.run("a");
    await settle();
    life.run("b");
    await settle();
    assert.deepEqual(await life.machines(), ["a sim.2", "b sim.2"]);
    assert.equal(world.cloud.callCount("launch"), 2, "the refused one did not reach the cloud");
    assert.deepEqual(
      life.events.filter((event) => event.includes("Capacity")),
      ["a CloudNoCapacity"],
    );
    await life.kill();
  });

  it("keeps to the types and launch types that the pod allows, and says what it waits for", async () => {
    const world = new LaunchWorld(new ManualClock());
    const { faults } = world.cloud;
    await faults.noCapacity({ instanceType: "sim.2" });
    await faults.noCapacity({ launchType: "spot" });
    const life = new LaunchLife(world);
    life.run("only", { annotations: { "pod.elotl.co/instance-type": "sim.2" } });
    life.run("spot", { annotations: { "pod.elotl.co/launch-type": "spot" } });
    life.run("large", { cpu: "2" });
    await settle();
    assert.deepEqual(await life.machines(), ["large sim.4"]);
    assert.match(life.why("only") ?? "", /no capacity of type sim\.2\. Kip tries again at 20/);
    assert.match(life.why("spot") ?? "", /no capacity of spot\. /);
    assert.equal(world.cells.size, 1, "a Cell that cannot be started does not stay");
    await faults.clear();
    await world.clock.advance(30_000);
    await settle();
    assert.deepEqual(await life.machines(), ["large sim.4", "only sim.2", "spot sim.1"]);
    await life.kill();
  });

  it("goes from spot to on-demand machines, but not above the price limit of the pod", async () => {
    const world = new LaunchWorld(new ManualClock());
    const { faults } = world.cloud;
    await faults.noCapacity({ launchType: "spot" });
    await faults.noCapacity({ instanceType: "sim.1" });
    const life = new LaunchLife(world);
    const either = { "pod.elotl.co/launch-type": "spot-or-on-demand" };
    life.run("either", { annotations: either });
    await settle();
    life.run("cheap", { annotations: { ...either, "pod.elotl.co/max-price-per-hour": "0.05" } });
    await settle();
    assert.deepEqual(await life.machines(), ["either sim.2"]);
    assert.match(life.why("cheap") ?? "", /no capacity of spot; type sim\.1\. /);
    await faults.clear();
    await world.clock.advance(30_000);
    await settle();
    assert.deepEqual(await life.machines(), ["cheap sim.1", "either sim.2"]);
    await life.kill();
  });

  it("asks for the pod that was created first when the time has passed, not for all", async (t) => {
    const world = new LaunchWorld(new ManualClock());
    const { faults } = world.cloud;
    await faults.noCapacity({});
    const life = new LaunchLife(world);
    for (let age = 0; age < 5; age++) life.run(`p${age}`, { age });
    await settle();
    await world.clock.advance(29_000);
    const { mock } = t.mock.method(world, "create");
    await world.clock.advance(1000);
    await settle();
    assert.equal(mock.callCount(), 1);
    assert.equal(life.events.at(-1), "p4 waits: CloudNoCapacity");
    await faults.clear();
    await world.clock.advance(60_000);
    await settle();
    assert.equal((await life.machines()).length, 5);
    await life.kill();
    await world.clock.advance(10_000); // statuses of Cells are written
    assert.equal(world.clock.sleepers, 0);
  });

  it("does not ask for all pods when there is capacity for one", async () => {
    const world = new LaunchWorld(new ManualClock());
    world.room = 0;
    const life = new LaunchLife(world);
    const only = { "pod.elotl.co/instance-type": "sim.1" };
    for (let n = 0; n < 60; n++) life.run(`p${n}`, { annotations: only, age: 60 - n });
    await settle();
    assert.equal(world.cells.size, 0);
    const before = world.created;
    world.room = 1;
    await world.clock.advance(30_000);
    await settle();
    await world.clock.advance(10_000);
    await settle();
    assert.deepEqual(await life.machines(), ["p0 sim.1"]);
    assert.ok(world.created - before <= 11, `${world.created - before} Cells`);
    world.room = Infinity;
    await world.clock.advance(30_000);
    for (let n = 0; n < 5; n++) {
      await settle();
      await world.clock.advance(2000);
    }
    await settle();
    assert.equal((await life.machines()).length, 60);
    await life.kill();
  });

  it("requests each of hundreds of types once, and then waits", async () => {
    const types = Array.from({ length: 300 }, (_, n) => ({
      name: `type-${n}`,
      cpuMilli: 1000,
      memoryBytes: 2 ** 30,
      gpus: 0,
      pricePerHour: { "on-demand": 1 + n },
    }));
    const world = new LaunchWorld(new ManualClock(), { types });
    world.room = 0;
    const life = new LaunchLife(world);
    life.run("p");
    for (let n = 0; n < 100; n++) await settle();
    assert.equal(world.created, 300);
    assert.match(life.why("p") ?? "", /no capacity of type type-0; .*; 295 more\. Kip tries again/);
    await life.kill();
  });

  it("requests each next type for one of many pods that start together, and then for all", async () => {
    const types = Array.from({ length: 10 }, (_, n) => ({
      name: `type-${n}`,
      cpuMilli: 1000,
      memoryBytes: 2 ** 30,
      gpus: 0,
      pricePerHour: { "on-demand": 1 + n },
    }));
    const world = new LaunchWorld(new ManualClock(), { types, callMs: 200 });
    for (const { name: instanceType } of types.slice(0, 9))
      await world.cloud.faults.noCapacity({ instanceType });
    const life = new LaunchLife(world);
    for (let n = 0; n < 20; n++) life.run(`p${n}`);
    for (let second = 0; second < 20; second++) {
      await world.clock.advance(1000);
      await settle();
    }
    const [machines] = await Promise.all([life.machines(), world.clock.advance(200)]);
    assert.equal(machines.filter((each) => each.endsWith(" type-9")).length, 20);
    // All request the first type, one of them each of the eight next ones, and then all the last one.
    assert.equal(world.created, 20 + 8 + 20);
    await life.kill();
  });

  it("knows of capacity also when the response to the launch was lost", async () => {
    const world = new LaunchWorld(new ManualClock());
    const { faults } = world.cloud;
    await faults.noCapacity({});
    const life = new LaunchLife(world);
    for (let n = 0; n < 5; n++) life.run(`p${n}`, { age: 5 - n });
    await settle();
    await faults.clear();
    await faults.fail({ operation: "launch", code: "CLOUD_UNAVAILABLE", moment: "after" });
    await world.clock.advance(30_000);
    await settle();
    await world.clock.advance(5000);
    await settle();
    assert.equal((await life.machines()).length, 5);
    assert.equal(world.cells.size, 5);
    await life.kill();
  });

  it("lets no pod wait for the launches of others that are refused", async () => {
    const world = new LaunchWorld(new ManualClock());
    const { faults } = world.cloud;
    await faults.fail({ operation: "launch", code: "CLOUD_THROTTLED" });
    const life = new LaunchLife(world);
    const spot = { "pod.elotl.co/launch-type": "spot" };
    for (let n = 0; n < 20; n++) life.run(`p${n}`, { annotations: spot, age: 10 });
    life.run("either", { annotations: { "pod.elotl.co/launch-type": "spot-or-on-demand" } });
    life.run("other");
    await settle();
    assert.equal(world.cells.size, 22);
    await faults.noCapacity({ launchType: "spot" });
    for (let second = 0; second < 4; second++) {
      await world.clock.advance(1000);
      await settle();
    }
    assert.deepEqual(await life.machines(), ["either sim.1", "other sim.1"]);
    assert.match(life.why("p7") ?? "", /no capacity of spot\. Kip tries again at/);
    await endShortage(world, life, { machines: 22 });
  });

  it("requests no machine for a pod whose Cell was being written when another pod found that there is none", async (t) => {
    const world = new LaunchWorld(new ManualClock());
    const { faults } = world.cloud;
    const written = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const;
    const create = world.create.bind(world);
    t.mock.method(world, "create", async (spec: CellSpec) => {
      await written[spec.podRef.uid.startsWith("p") ? 1 : 0].promise;
      return create(spec);
    });
    const life = new LaunchLife(world);
    const spot = { "pod.elotl.co/launch-type": "spot" };
    await faults.noCapacity({ launchType: "spot" });
    life.run("first", { annotations: spot, age: 20 });
    for (let n = 0; n < 20; n++) life.run(`p${n}`, { annotations: spot, age: 10 });
    await settle();
    written[0].resolve();
    await settle();
    await faults.fail({ operation: "launch", code: "CLOUD_THROTTLED" });
    life.run("other");
    await settle();
    written[1].resolve();
    await settle();
    await world.clock.advance(1000);
    await settle();
    assert.deepEqual(await life.machines(), ["other sim.1"]);
    assert.match(life.why("p7") ?? "", /no capacity of spot\. Kip tries again at/);
    await endShortage(world, life, { machines: 22 });
  });

  it("starts pods that wait for two shortages of the same machine, which are tried at the same time", async () => {
    const world = new LaunchWorld(new ManualClock());
    const { faults } = world.cloud;
    await faults.fail({ operation: "launch", code: "CLOUD_AUTH", calls: 3 });
    const life = new LaunchLife(world);
    const only = { "pod.elotl.co/instance-type": "sim.1" };
    for (let n = 0; n < 3; n++) life.run(`p${n}`, { annotations: only });
    await settle();
    world.room = 1;
    await faults.noCapacity({}); // the cloud names the zone, and without room the type
    await world.clock.advance(30_000);
    await settle();
    await faults.clear();
    world.room = Infinity;
    for (let n = 0; n < 12; n++) {
      await world.clock.advance(10_000);
      await settle();
    }
    assert.equal((await life.machines()).length, 3, life.why("p0"));
    await life.kill();
  });

  it("starts the pods of a zone that has capacity again while the oldest one's type has none", async () => {
    const world = new LaunchWorld(new ManualClock());
    const { faults } = world.cloud;
    await faults.noCapacity({ zone: "simulated-1" });
    const life = new LaunchLife(world);
    life.run("large", { cpu: "4", age: 9 });
    for (let n = 0; n < 3; n++) life.run(`p${n}`);
    await settle();
    await faults.clear();
    await faults.noCapacity({ instanceType: "sim.4" });
    await world.clock.advance(30_000);
    await settle();
    assert.deepEqual(await life.machines(), ["p0 sim.1", "p1 sim.1", "p2 sim.1"]);
    assert.match(life.why("large") ?? "", /no capacity of type sim\.4\. /);
    await life.kill();
  });

  it("lets the next pod try at once when the first is removed while its Cell is written", async (t) => {
    const world = new LaunchWorld(new ManualClock());
    await world.cloud.faults.noCapacity({});
    const life = new LaunchLife(world);
    const first = life.run("first", { age: 1 });
    life.run("next");
    await settle();
    await world.cloud.faults.clear();
    const { promise, resolve } = Promise.withResolvers<void>();
    const create = world.create.bind(world);
    t.mock.method(world, "create", async (spec: CellSpec) => {
      if (spec.podRef.uid === "first") await promise;
      return create(spec);
    });
    await world.clock.advance(30_000);
    await settle();
    first.remove(0);
    await settle();
    resolve();
    await settle();
    assert.deepEqual(await life.machines(), ["next sim.1"]);
    await life.kill();
  });

  it("looks at a new version of a pod at once, and forgets one that is removed", async () => {
    const world = new LaunchWorld(new ManualClock());
    await world.cloud.faults.noCapacity({ instanceType: "sim.4" });
    const life = new LaunchLife(world);
    const worker = life.run("p", { cpu: "4" });
    const gone = life.run("gone", { cpu: "4" });
    await settle();
    assert.deepEqual(await life.machines(), []);
    gone.remove(0);
    await gone.settled;
    const { resolved } = worker.state.pod;
    assert.ok(resolved);
    const containers = [{ name: "main", resources: { requests: { cpu: "2" } } }];
    worker.apply({ ...resolved, pod: { ...resolved.pod, spec: { containers } } });
    await settle();
    assert.deepEqual(await life.machines(), ["p sim.2"]);
    await life.kill();
    await world.clock.advance(0); // the machine has started
    await world.clock.advance(10_000); // statuses of Cells are written
    assert.equal(world.clock.sleepers, 0);
  });

  it("uses the machine of a launch that was refused and done all the same", async () => {
    const world = new LaunchWorld(new ManualClock());
    await world.cloud.faults.fail({
      operation: "launch",
      code: "CLOUD_NO_CAPACITY",
      moment: "after",
    });
    const life = new LaunchLife(world);
    life.run("p");
    await settle();
    assert.deepEqual([await life.machines(), world.most], [["p sim.1"], 1]);
    await life.kill();
  });

  it("starts one machine, whenever kip is killed and whatever answer is lost", async () => {
    const deaths = fc.array(
      fc.record({ atCall: fc.integer({ min: 1, max: 14 }), isBefore: fc.boolean() }),
      { maxLength: 4 },
    );
    const lost = fc.array(
      fc.constantFrom("CLOUD_UNAVAILABLE" as const, "CLOUD_NO_CAPACITY" as const),
      { maxLength: 3 },
    );
    const short = fc.subarray(["sim.1", "sim.2"]);
    await fc.assert(
      fc.asyncProperty(deaths, lost, short, async (series, codes, types) => {
        const world = new LaunchWorld(new ManualClock());
        const { faults } = world.cloud;
        for (const instanceType of types) await faults.noCapacity({ instanceType });
        for (const code of codes) await faults.fail({ operation: "launch", code, moment: "after" });
        for (const death of series) {
          const life = new LaunchLife(world, death);
          life.run("p");
          await settle();
          await life.kill();
        }
        const life = new LaunchLife(world);
        life.run("p");
        for (let turn = 0; turn < 40; turn++) {
          await settle();
          await world.clock.advance(10_000);
        }
        assert.equal((await life.machines()).length, 1);
        assert.deepEqual([world.cells.size, world.most], [1, 1]);
        await life.kill();
      }),
      { numRuns: 25 },
    );
  });
});

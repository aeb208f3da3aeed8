import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import type { PodStatus } from "@kip/k8s-types";
import { ManualClock } from "@kip/testing";
import { settle } from "../testing/kip-life.ts";
import { LaunchLife, LaunchWorld } from "../testing/launch-life.ts";
import type { CellWorker } from "./cell-worker.ts";

describe("a cloud that slows launches down", () => {
  it("gives other work its turn while many pods that wait for a quota see a new configuration", async () => {
    const world = new LaunchWorld(new ManualClock());
    world.refuses = /on-demand/;
    const life = new LaunchLife(world);
    const workers = Array.from({ length: 50 }, (_, n) => life.run(`p${n}`));
    for (let n = 0; n < 5; n++) await settle(); // each was looked at once
    const count = (): number => world.cloud.callCount("instanceTypes");
    const before = count();
    world.settings = { registries: [] };
    for (const worker of workers) worker.retryStart();
    let most = 0;
    for (let turn = 0, last = before; turn < 300; turn++) {
      await setImmediate();
      most = Math.max(most, count() - last);
      last = count();
    }
    assert.deepEqual([count() - before, most], [50, 1]);
    await life.kill();
  });

  it("gets one call at a time while it throttles, and all pods start", async () => {
    const world = new LaunchWorld(new ManualClock());
    await world.cloud.faults.fail({ operation: "launch", code: "CLOUD_THROTTLED", calls: 3 });
    const life = new LaunchLife(world);
    for (let age = 0; age < 6; age++) life.run(`p${age}`, { age });
    await settle();
    assert.match(life.why("p0") ?? "", /Cannot do "launch".*Kip asks again in 1 seconds/);
    await world.clock.advance(6999); // refused again after 1 and 3 seconds
    assert.deepEqual(await life.machines(), []);
    await world.clock.advance(1);
    await settle();
    assert.deepEqual(await life.machines(), ["p5 sim.1"], "the oldest comes first");
    await world.clock.advance(3000);
    await settle();
    assert.equal((await life.machines()).length, 6);
    assert.equal(life.events.filter((event) => event.includes("waits: CloudThrottled")).length, 6);
    await life.kill();
  });

  it("starts a pod above the quota when another one's machine has ended", async () => {
    const world = new LaunchWorld(new ManualClock(), { maxInstances: 1 });
    const life = new LaunchLife(world);
    const first = life.run("a");
    await settle();
    life.run("b");
    await settle();
    assert.match(life.why("b") ?? "", /limit of 1 instances.*Kip asks again in 5 seconds/);
    first.remove(0);
    await world.clock.advance(0);
    await settle();
    await world.clock.advance(0);
    await settle();
    assert.deepEqual(await life.machines(), ["b sim.1"]);
    await life.kill();
  });

  it("gives a pod above the quota another machine at once when its annotation asks for that", async () => {
    const world = new LaunchWorld(new ManualClock());
    world.refuses = /on-demand/;
    const life = new LaunchLife(world);
    const ofType = (type: string) => ({
      annotations: { "pod.elotl.co/instance-type": type },
    });
    const worker = life.run("a", ofType("sim.4"));
    await settle();
    assert.match(life.why("a") ?? "", /Kip asks again in 5 seconds/);
    world.refuses = undefined;
    // A version that asks for the same machine changes nothing.
    worker.apply(life.resolved("a", ofType("sim.4")));
    await settle();
    assert.deepEqual([await life.machines(), world.created], [[], 1]);
    worker.apply(life.resolved("a", ofType("sim.1")));
    await settle();
    assert.deepEqual(await life.machines(), ["a sim.1"], life.why("a"));
    await life.kill();
  });

  it("gives a pod above the quota another machine at once when the configuration has changed", async () => {
    const world = new LaunchWorld(new ManualClock());
    world.defaultType = "sim.4";
    world.refuses = /on-demand/;
    const life = new LaunchLife(world);
    const worker = life.run("a", { cpu: "0" });
    await settle();
    assert.match(life.why("a") ?? "", /Kip asks again in 5 seconds/);
    world.refuses = undefined;
    world.defaultType = "sim.2";
    world.settings = { registries: [] };
    worker.retryStart();
    await settle();
    assert.deepEqual(await life.machines(), ["a sim.2"], life.why("a"));
    await life.kill();
  });

  it("gives a pod that may have either a machine on demand above the quota of spot machines", async () => {
    const world = new LaunchWorld(new ManualClock());
    await world.cloud.faults.fail({ operation: "launch", code: "CLOUD_QUOTA", calls: 1 });
    const life = new LaunchLife(world);
    life.run("spot", { annotations: { "pod.elotl.co/launch-type": "spot" } });
    await settle();
    assert.match(life.why("spot") ?? "", /Kip asks again in 5 seconds/);
    life.run("either", { annotations: { "pod.elotl.co/launch-type": "spot-or-on-demand" } });
    await settle();
    const bought = async (): Promise<readonly string[]> =>
      (await world.cloud.open({ owner: "kip" }).list())
        .map(({ tags, launchType }) => `${tags["kip-pod-uid"]} ${launchType}`)
        .sort();
    assert.deepEqual(await bought(), ["either on-demand"]);
    assert.equal(life.events.filter((each) => each === "either CloudQuota").length, 1);
    await world.clock.advance(5000);
    await settle();
    assert.deepEqual(await bought(), ["either on-demand", "spot spot"]);
    // The next launch is refused.
    await world.cloud.faults.fail({ operation: "launch", code: "CLOUD_QUOTA", calls: 1 });
    life.run("next", { annotations: { "pod.elotl.co/launch-type": "spot-or-on-demand" } });
    await settle();
    assert.deepEqual(await bought(), ["either on-demand", "next on-demand", "spot spot"]);
    await life.kill();
  });

  for (const [what, annotations] of [
    ["may have spot machines alone", { "pod.elotl.co/launch-type": "spot" }],
    [
      "allows no price of a machine on demand",
      {
        "pod.elotl.co/launch-type": "spot-or-on-demand",
        "pod.elotl.co/max-price-per-hour": "0.02",
      },
    ],
  ] as const)
    it(`leaves a pod that ${what} to the quota alone, also after the refusal of another pod`, async () => {
      const world = new LaunchWorld(new ManualClock());
      const life = new LaunchLife(world);
      await world.cloud.faults.fail({ operation: "launch", code: "CLOUD_QUOTA", calls: 1 });
      life.run("either", { annotations: { "pod.elotl.co/launch-type": "spot-or-on-demand" } });
      await settle();
      life.run("a", { annotations });
      await settle();
      assert.deepEqual(await life.machines(), ["a sim.1", "either sim.1"], life.why("a"));
      await world.cloud.faults.fail({ operation: "launch", code: "CLOUD_QUOTA", calls: 1 });
      life.run("b", { annotations });
      await settle();
      assert.match(life.why("b") ?? "", /"launch".*Kip asks again in 5 seconds/);
      await world.clock.advance(5000);
      await settle();
      assert.equal((await life.machines()).length, 3);
      await life.kill();
    });

  it("gives a pod above the quota of spot machines one when a machine has ended and there are none on demand", async () => {
    const world = new LaunchWorld(new ManualClock());
    const life = new LaunchLife(world);
    const ended = life.run("ended");
    await settle();
    await world.cloud.faults.noCapacity({ launchType: "on-demand" });
    await world.cloud.faults.fail({ operation: "launch", code: "CLOUD_QUOTA", calls: 1 });
    life.run("either", { annotations: { "pod.elotl.co/launch-type": "spot-or-on-demand" } });
    await settle();
    assert.match(life.why("either") ?? "", /no capacity of .*spot/);
    ended.remove(0);
    await world.clock.advance(0);
    await settle();
    assert.deepEqual(await life.machines(), ["either sim.1"]);
    await life.kill();
  });

  it("gives a pod above both quotas whichever machine is possible first, the oldest pod first", async () => {
    const world = new LaunchWorld(new ManualClock());
    const life = new LaunchLife(world);
    const ended = life.run("ended");
    await settle();
    const annotations = { "pod.elotl.co/launch-type": "spot-or-on-demand" };
    const full = async (calls: number): Promise<void> =>
      await world.cloud.faults.fail({ operation: "launch", code: "CLOUD_QUOTA", calls });
    await full(2);
    life.run("old", { annotations, age: 1 });
    await settle();
    assert.match(life.why("old") ?? "", /Kip asks again in 5 seconds/);
    life.run("young", { annotations });
    await settle();
    assert.equal(world.cells.size, 3);
    // The quota of machines on demand stays full, that of spot machines has room again.
    world.refuses = /on-demand/;
    ended.remove(0);
    await world.clock.advance(0);
    await settle();
    assert.deepEqual(await life.machines(), ["old sim.1", "young sim.1"]);
    await life.kill();
  });

  it("gives pods with no other choice a spot machine when one has ended, one after the other", async () => {
    const world = new LaunchWorld(new ManualClock());
    const life = new LaunchLife(world);
    const launchType = "pod.elotl.co/launch-type";
    const either = { [launchType]: "spot-or-on-demand" };
    const cheap = { ...either, "pod.elotl.co/max-price-per-hour": "0.02" }; // less than one on demand costs
    await world.cloud.faults.fail({ operation: "launch", code: "CLOUD_QUOTA", calls: 1 });
    life.run("cheap", { annotations: cheap, age: 1 });
    await settle();
    life.run("spot", { annotations: { [launchType]: "spot" } });
    await settle();
    for (const uid of ["cheap", "spot"]) assert.match(life.why(uid) ?? "", /Kip asks again in/);
    await world.clock.advance(1);
    const ended = life.run("ended");
    await settle();
    ended.remove(0);
    await world.clock.advance(0);
    await settle();
    assert.deepEqual(await life.machines(), ["cheap sim.1", "spot sim.1"]);
    await life.kill();
  });

  for (const [what, leave] of [
    ["is deleted while it launches", (first: CellWorker) => first.remove(0)],
    ["cannot be launched at all", undefined],
  ] as const)
    it(`lets the next pod try at once when the one whose turn it is ${what}`, async () => {
      const world = new LaunchWorld(new ManualClock());
      const { faults } = world.cloud;
      const life = new LaunchLife(world);
      const ended = life.run("ended");
      await settle();
      world.refuses = /spot/;
      const annotations = { "pod.elotl.co/launch-type": "spot-or-on-demand" };
      await faults.noCapacity({ launchType: "on-demand" });
      const first = life.run("first", { annotations, age: 2 });
      life.run("next", { annotations, age: 1 });
      await settle();
      world.refuses = undefined;
      if (leave) world.stuck = "first";
      else await faults.fail({ operation: "launch", code: "CLOUD_AUTH" });
      ended.remove(0);
      await world.clock.advance(0);
      await settle();
      assert.deepEqual(await life.machines(), leave ? [] : ["next sim.1"]);
      leave?.(first);
      await settle();
      assert.deepEqual(await life.machines(), ["next sim.1"]);
      await life.kill();
    });

  it("lets one pod above both quotas try when many machines end together", async () => {
    const world = new LaunchWorld(new ManualClock());
    const life = new LaunchLife(world);
    const ended = Array.from({ length: 20 }, (_, n) => life.run(`ended${n}`));
    await settle();
    world.refuses = /spot|on-demand/;
    const annotations = { "pod.elotl.co/launch-type": "spot-or-on-demand" };
    for (let n = 0; n < 20; n++) life.run(`p${n}`, { annotations, age: 20 - n });
    await settle();
    const before = world.created;
    const { promise, resolve } = Promise.withResolvers<void>();
    world.removable = promise;
    for (const worker of ended) worker.remove(0);
    await world.clock.advance(0);
    await settle();
    resolve();
    for (let i = 0; i < 5; i++) {
      await world.clock.advance(1);
      await settle();
    }
    assert.deepEqual(await life.machines(), []);
    // Two tries, each with a Cell of a spot machine and then one on demand.
    assert.equal(world.created - before, 4);
    await life.kill();
  });

  it("does not hold up the pods that wait for a zone's capacity with older ones that are above a quota then", async () => {
    const world = new LaunchWorld(new ManualClock());
    const life = new LaunchLife(world);
    await world.cloud.faults.noCapacity({ zone: "simulated-1" });
    for (let n = 0; n < 5; n++) life.run(`p${n}`, { age: 9 });
    life.run("spot", { annotations: { "pod.elotl.co/launch-type": "spot" } });
    await settle();
    await world.cloud.faults.clear();
    world.refuses = /on-demand/;
    await world.clock.advance(30_000);
    await settle();
    assert.deepEqual(await life.machines(), ["spot sim.1"]);
    await life.kill();
  });

  it("leaves a quota for the machine of a corrected pod that was short when it was corrected", async () => {
    const world = new LaunchWorld(new ManualClock());
    const life = new LaunchLife(world);
    world.refuses = /spot/;
    await world.cloud.faults.noCapacity({ instanceType: "sim.2" });
    const only = { "pod.elotl.co/instance-type": "sim.2" };
    life.run("other", { annotations: only, age: 9 });
    const worker = life.run("p", { annotations: { "pod.elotl.co/launch-type": "spot" } });
    await settle();
    worker.apply(life.resolved("p", { annotations: only }));
    await settle();
    assert.match(life.why("p") ?? "", /no capacity of type sim\.2/);
    await world.cloud.faults.clear();
    await world.clock.advance(30_000);
    await settle();
    assert.deepEqual(await life.machines(), ["other sim.2", "p sim.2"]);
    await life.kill();
  });

  it("gives a pod a machine on demand when it is changed to allow one while it waits for a spot quota", async () => {
    const world = new LaunchWorld(new ManualClock());
    const life = new LaunchLife(world);
    world.refuses = /spot/;
    const worker = life.run("p", { annotations: { "pod.elotl.co/launch-type": "spot" } });
    await settle();
    const annotations = { "pod.elotl.co/launch-type": "spot-or-on-demand" };
    worker.apply(life.resolved("p", { annotations }));
    await settle();
    assert.deepEqual(await life.machines(), ["p sim.1"]);
    await life.kill();
  });

  it("gives a pod that was changed while kip was not running the machine that it wants now", async () => {
    const world = new LaunchWorld(new ManualClock());
    const before = new LaunchLife(world);
    world.refuses = /spot/;
    before.run("p", { annotations: { "pod.elotl.co/launch-type": "spot" } });
    await settle();
    await before.kill();
    const life = new LaunchLife(world);
    life.run("p");
    await settle();
    assert.deepEqual(await life.machines(), ["p sim.1"]);
    await life.kill();
  });

  it("does not replace the Cell of a pod above a quota again and again when spot machines cost more than its price limit", async () => {
    const types = [1, 8].map((cpus) => ({
      name: `sim.${cpus}`,
      cpuMilli: cpus * 1000,
      memoryBytes: cpus * 2 ** 31,
      gpus: 0,
      pricePerHour: { "on-demand": cpus * 0.04, spot: cpus * 0.01 },
    }));
    const world = new LaunchWorld(new ManualClock(), { types });
    world.refuses = /./;
    const life = new LaunchLife(world);
    const annotations = {
      "pod.elotl.co/launch-type": "spot-or-on-demand",
      "pod.elotl.co/max-price-per-hour": "0.05",
    };
    life.run("p", { annotations });
    await settle();
    assert.match(life.why("p") ?? "", /Too many machines on-demand\. Kip asks again in/);
    assert.equal(world.created, 2);
    await life.kill();
  });

  it("does not replace the Cells of pods above a quota again and again while they pass the turns for two zones", async () => {
    const world = new LaunchWorld(new ManualClock());
    world.zones = ["z1", "z2"];
    const { faults } = world.cloud;
    for (const zone of world.zones) await faults.noCapacity({ zone });
    const life = new LaunchLife(world);
    const either = { "pod.elotl.co/launch-type": "spot-or-on-demand" };
    for (let n = 0; n < 20; n++)
      life.run(`p${n}`, { annotations: n % 2 === 0 ? {} : either, age: 20 - n });
    await settle();
    await faults.clear();
    world.refuses = /./;
    const before = world.created;
    const pass = async (seconds: number): Promise<void> => {
      for (let second = 0; second < seconds; second++) {
        await world.clock.advance(1000);
        await settle();
      }
    };
    await pass(60);
    assert.match(life.why("p0") ?? "", /Too many machines on-demand\. Kip asks again in/);
    const created = world.created - before;
    assert.ok(created >= 20 && created <= 30, `${created} Cells`);
    world.refuses = undefined;
    await pass(60);
    assert.equal((await life.machines()).length, 20);
    await life.kill();
  });

  it("does not replace the Cell of a pod above a quota again and again when only a machine of its size before a resize is left", async () => {
    const world = new LaunchWorld(new ManualClock());
    await world.cloud.faults.noCapacity({ instanceType: "sim.4" });
    const life = new LaunchLife(world);
    life.run("large", { cpu: "3" });
    await settle();
    assert.match(life.why("large") ?? "", /no capacity of type sim\.4/);
    world.refuses = /./;
    const before = world.created;
    const main = { name: "main", resources: { requests: { cpu: "500m" } } };
    const status = { containerStatuses: [main] } as unknown as PodStatus; // the fields that are read
    life.run("resized", { cpu: "3", status });
    await settle();
    assert.match(life.why("resized") ?? "", /Too many machines on-demand\. Kip asks again in/);
    assert.equal(world.created - before, 1);
    await life.kill();
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ManualClock } from "@kip/testing";
import { isStandby } from "../state/cell.ts";
import { KipLife, KipWorld, pass, poolOf, settle } from "../testing/kip-life.ts";

/** A world with these pools, which kip has filled. */
async function filled(...pools: readonly (readonly [type: string, count: number])[]) {
  const world = new KipWorld(new ManualClock());
  world.pools = pools.map(([type, count]) => poolOf(type, count));
  const life = new KipLife(world);
  await life.start();
  await pass(world, 2000);
  return { world, life };
}

/** The types of the waiting cells, and the pods of the others. */
function cellsOf({ api }: KipWorld): readonly string[] {
  return [...api.cells.values()]
    .map((cell) => (isStandby(cell) ? cell.spec.instanceType : cell.spec.podRef.uid))
    .sort();
}

describe("standby cells", () => {
  it("are there when kip has started, and a pod takes one without a launch", async () => {
    const { world, life } = await filled(["sim.1", 1]);
    assert.deepEqual(cellsOf(world), ["sim.1"]);
    const [before] = world.api.cells.values();
    const launches = world.cloud.callCount("launch");
    world.addPod("p", "100m");
    life.apply("p");
    await settle();
    assert.deepEqual(world.agents.pods(), ["p"], "it runs, and no time has passed");
    const cell = [...world.api.cells.values()].find((each) => !isStandby(each));
    assert.equal(cell?.metadata.uid, before?.metadata.uid);
    assert.equal(world.cloud.callCount("launch"), launches + 1, "the one that refills the pool");
    assert.match(life.events.join("\n"), /CellCreated: .*which stood by, was taken for this pod/);
    await pass(world, 2000);
    assert.deepEqual(cellsOf(world), ["p", "sim.1"]);
    await life.kill();
  });

  it("get the tags of their pod, which does not wait for them", async () => {
    const { world, life } = await filled(["sim.1", 1]);
    const [instance] = await world.driver.list();
    const tags = async () => (await world.driver.describe(instance?.id ?? ""))?.tags;
    const standby = await tags();
    assert.equal(standby?.["kip-standby"], "true");
    await world.cloud.faults.fail({ operation: "setTags", code: "CLOUD_THROTTLED", calls: 3 });
    world.addPod("p", "100m");
    const pod = world.pods.get("p");
    assert.ok(pod);
    const labels = { team: "web" };
    world.pods.set("p", { ...pod, metadata: { ...pod.metadata, labels } });
    life.apply("p");
    await settle();
    assert.deepEqual(world.agents.pods(), ["p"]);
    assert.deepEqual(await tags(), standby);
    await pass(world, 10_000);
    const { "kip-standby": _gone, ...rest } = standby;
    assert.deepEqual(await tags(), {
      ...rest,
      team: "web",
      "kip-pod-namespace": pod.metadata.namespace,
      "kip-pod-name": "p",
      "kip-pod-uid": "p",
    });
    assert.equal(world.cloud.callCount("setTags"), 1);
    assert.doesNotMatch(life.events.join("\n"), /Throttled/);
    await pass(world, 60_000);
    assert.equal(world.cloud.callCount("setTags"), 1, "once for a claim");
    await life.kill();
  });

  it("get the tags of their pod from the next kip, if one ends before", async () => {
    const { world, life } = await filled(["sim.1", 1]);
    const [instance] = await world.driver.list();
    await world.cloud.faults.fail({ operation: "setTags", code: "CLOUD_THROTTLED" });
    world.addPod("p", "100m");
    life.apply("p");
    await settle();
    await life.kill();
    const next = new KipLife(world);
    await next.start();
    await pass(world, 3000);
    const tags = (await world.driver.describe(instance?.id ?? ""))?.tags;
    assert.deepEqual([tags?.["kip-standby"], tags?.["kip-pod-uid"]], [undefined, "p"]);
    await next.kill();
  });

  it("are not too many when the API writes them without an answer, and tells nothing for minutes", async () => {
    const world = new KipWorld(new ManualClock());
    world.pools = [poolOf("sim.1", 2)];
    const life = new KipLife(world);
    world.api.isSilent = true;
    await life.start();
    await pass(world, 300_000, 5000);
    world.api.answerAgain();
    await pass(world, 10_000);
    assert.deepEqual(cellsOf(world), ["sim.1", "sim.1"]);
    assert.equal(world.cloud.callCount("launch"), 2);
    await life.kill();
  });

  it("are not taken by a pod that would get another machine", async () => {
    const { world, life } = await filled(["sim.2", 1]);
    world.addPod("p", "100m");
    life.apply("p");
    await pass(world, 2000);
    assert.deepEqual(cellsOf(world), ["p", "sim.2"]);
    const types = (await world.driver.list()).map(({ instanceType }) => instanceType).sort();
    assert.deepEqual(types, ["sim.1", "sim.2"]);
    await life.kill();
  });

  it("are taken by a pod that needs a larger disk, which grows before the pod is there", async () => {
    const { world, life } = await filled(["sim.1", 1]);
    const [instance] = await world.driver.list();
    world.addPod("p", "100m", { "pod.elotl.co/volume-size": "3Gi" });
    life.apply("p");
    await settle();
    assert.deepEqual(world.agents.pods(), ["p"]);
    assert.equal(world.cloud.hardware(instance?.id ?? "").rootBytes, 3 * 2 ** 30);
    const cell = [...world.api.cells.values()].find((each) => !isStandby(each));
    assert.ok(cell && !isStandby(cell));
    const { rootDiskBytes, launchedDiskBytes } = cell.spec;
    assert.deepEqual([rootDiskBytes, launchedDiskBytes], [3 * 2 ** 30, 2 ** 30]);
    await pass(world, 2000);
    assert.deepEqual(cellsOf(world), ["p", "sim.1"]);
    await life.kill();
  });

  it("are taken by pods in the order in which they ask, one by each", async () => {
    const { world, life } = await filled(["sim.1", 2]);
    const pods = ["a", "b", "c", "d"];
    for (const uid of pods) {
      world.addPod(uid, "100m");
      life.apply(uid);
    }
    await settle();
    assert.deepEqual(world.agents.pods(), ["a", "b"]);
    await pass(world, 5000);
    assert.deepEqual(cellsOf(world), [...pods, "sim.1", "sim.1"]);
    await life.kill();
  });

  it("of an older image are ended and replaced; that of a pod stays", async () => {
    const { world, life } = await filled(["sim.1", 2]);
    world.addPod("p", "100m");
    life.apply("p");
    await pass(world, 2000);
    world.image = "newer";
    await pass(world, 65_000);
    const images = [...world.api.cells.values()].map(
      (cell) => `${cell.spec.image} ${isStandby(cell) ? "stands by" : "has a pod"}`,
    );
    assert.deepEqual(images.sort(), ["cell has a pod", "newer stands by", "newer stands by"]);
    await life.kill();
  });

  it("are replaced when the cloud says that it takes them back", async () => {
    const { world, life } = await filled(["sim.1", 1]);
    const [first] = await world.driver.list();
    await world.cloud.faults.interrupt(first?.id ?? "", 120_000);
    await pass(world, 5000);
    const after = await world.driver.list();
    assert.deepEqual(cellsOf(world), ["sim.1"]);
    assert.notEqual(after[0]?.id, first?.id);
    await life.kill();
  });

  it("tell the pod that takes one that the cloud takes it back, if that was said meanwhile", async () => {
    const { world, life } = await filled(["sim.1", 1]);
    const [first] = await world.driver.list();
    const claim = Promise.withResolvers<void>();
    world.api.beforeClaim = async () => await claim.promise;
    world.addPod("p", "100m");
    life.apply("p");
    await settle();
    await world.cloud.faults.interrupt(first?.id ?? "", 120_000);
    await settle();
    claim.resolve();
    await settle();
    assert.match(life.events.join("\n"), /CellInterrupted/);
    await pass(world, 2000);
    assert.deepEqual(cellsOf(world), ["p", "sim.1"]);
    await life.kill();
  });

  it("are taken over by the next process of kip", async () => {
    const { world, life } = await filled(["sim.1", 2]);
    const before = [...world.api.cells.keys()].sort();
    await life.kill();
    const next = new KipLife(world);
    await next.start();
    await pass(world, 2000);
    assert.deepEqual([...world.api.cells.keys()].sort(), before);
    world.addPod("p", "100m");
    next.apply("p");
    await settle();
    assert.deepEqual(world.agents.pods(), ["p"]);
    await next.kill();
  });

  it("are ended, the oldest first, when the configuration wants fewer", async () => {
    const { world, life } = await filled(["sim.1", 3]);
    const names = [...world.api.cells.values()].map(({ metadata }) => metadata.name);
    world.pools = [poolOf("sim.1", 1)];
    life.standby.reconfigured();
    await pass(world, 1000);
    assert.deepEqual([...world.api.cells.keys()], names.slice(-1));
    world.pools = [];
    life.standby.reconfigured();
    await pass(world, 1000);
    assert.deepEqual([cellsOf(world), await world.driver.list()], [[], []]);
    await life.kill();
  });

  it("are replaced when their instance ends or their agent is lost", async () => {
    const { world, life } = await filled(["sim.1", 2]);
    const [first, second] = await world.driver.list();
    assert.ok(first && second);
    await world.cloud.faults.kill(first.id);
    world.agents.setReachable(second.name, false);
    await pass(world, 40_000);
    const after = await world.driver.list();
    assert.equal(after.length, 2);
    assert.ok(after.every(({ id }) => id !== first.id && id !== second.id));
    assert.deepEqual(cellsOf(world), ["sim.1", "sim.1"]);
    await life.kill();
  });

  it("count hits, misses, and pods of which there is no pool", async () => {
    const { world, life } = await filled(["sim.1", 1]);
    for (const [uid, cpu] of [
      ["a", "100m"],
      ["b", "100m"],
      ["c", "1500m"],
    ] as const) {
      world.addPod(uid, cpu);
      life.apply(uid);
    }
    await settle();
    const [claims] = life.standby.metrics();
    const counts = claims?.samples.map(({ labels, value }) => [labels?.["result"], value]);
    assert.deepEqual(counts, [
      ["hit", 1],
      ["miss", 1],
      ["unfit", 1],
    ]);
    await life.kill();
  });
});

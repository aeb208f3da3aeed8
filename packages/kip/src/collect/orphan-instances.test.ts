import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createLogger, systemClock } from "@kip/base";
import { CloudError, type Instance } from "@kip/cloud";
import { createSimulatedCloud } from "@kip/cloud/simulated";
import { eventually, ManualClock } from "@kip/testing";
import type { Cell } from "../state/cell.ts";
import { OrphanInstances } from "./orphan-instances.ts";

function newCloud() {
  const cloud = createSimulatedCloud();
  const driver = cloud.open({ owner: "kip" });
  const logged: string[] = [];
  const logger = createLogger({ level: "info", write: (line) => void logged.push(line) });
  const ends: string[] = [];
  const metrics = { orphanTermination: (result: string): void => void ends.push(result) };
  const boundPods = async (): Promise<ReadonlySet<string>> =>
    await Promise.resolve(new Set(["pod-1", "pod-2"]));
  const common = { driver, boundPods, clusterID: "here", metrics, clock: systemClock, logger };
  const launch = async (token: string, owner = driver, tags = {}): Promise<Instance> => {
    const launched = await owner.launch({
      token,
      name: token,
      instanceType: "sim.1",
      launchType: "on-demand",
      image: "cell",
      rootDiskBytes: 0,
      userData: new Uint8Array(),
      privateIpOnly: true,
      tags,
    });
    return await owner.waitForRunning(launched.id);
  };
  const collect = async (...uids: readonly string[]): Promise<number> => {
    const cells = uids.map((uid) => ({ metadata: { uid } }) as Cell); // the fields that are read
    const store = { list: async () => await Promise.resolve(cells) };
    return await new OrphanInstances({ ...common, store }).collect();
  };
  return { cloud, driver, launch, collect, common, ends, logged };
}

describe("OrphanInstances", () => {
  it("ends instances that no Cell stands for, and no others", async () => {
    const { cloud, driver, launch, collect } = newCloud();
    const [wanted, orphan] = [await launch("a"), await launch("b")];
    const other = cloud.open({ owner: "another kip" });
    const theirs = await launch("c", other);
    assert.equal(await collect("a"), 1);
    await driver.waitForTerminated(orphan.id);
    assert.deepEqual(await driver.list(), [wanted]);
    assert.deepEqual(await other.list(), [theirs]);
    assert.equal(await collect("a"), 0);
  });

  it("reads the Cells only if an instance has none that is known", async () => {
    const { driver, launch, common } = newCloud();
    const uids = ["a", "b"];
    let reads = 0;
    const list = async (): Promise<readonly Cell[]> => {
      reads++;
      return await Promise.resolve(uids.map((uid) => ({ metadata: { uid } }) as Cell)); // what is read
    };
    const orphans = new OrphanInstances({ ...common, store: { list } });
    for (const token of uids) await launch(token);
    assert.equal(await orphans.collect((token) => uids.includes(token)), 0);
    assert.equal(reads, 0);
    // One of another node, whose Cell the watch does not show.
    assert.equal(await orphans.collect((token) => token === "a"), 0);
    const orphan = await launch("c");
    assert.equal(await orphans.collect((token) => uids.includes(token)), 1);
    await driver.waitForTerminated(orphan.id);
    assert.equal(reads, 2);
  });

  it("leaves the instances of another cluster alone that has the same ID of the installation, and says so", async () => {
    const { driver, launch, collect, logged } = newCloud();
    const theirs = await launch("a", driver, { "kip-cluster": "there" });
    const ours = await launch("b", driver, { "kip-cluster": "here" });
    assert.equal(await collect(), 1);
    await driver.waitForTerminated(ours.id);
    assert.deepEqual(await driver.list(), [theirs]);
    assert.match(logged.join(""), /it has this testing\.controllerID.*"cluster":"there"/);
  });

  it("goes on with the others when one cannot be ended", async () => {
    const { cloud, driver, launch, collect, ends } = newCloud();
    const orphans = [await launch("a"), await launch("b")];
    await cloud.faults.fail({ operation: "terminate", code: "CLOUD_THROTTLED" });
    await collect();
    const left = (await driver.list()).filter(({ state }) => state === "running");
    assert.deepEqual([left, ends], [[orphans[0]], ["failed", "ok"]]);
    await collect();
    await Promise.all(orphans.map(({ id }) => driver.waitForTerminated(id)));
  });

  it("keeps a pod that an instance of before the start of kip may run from another, until that has ended", async () => {
    const { cloud, driver, launch, common } = newCloud();
    const ofPod = await launch("a", driver, { "kip-pod-uid": "pod-1" });
    const stoodBy = await launch("b");
    const clock = new ManualClock();
    const orphans = new OrphanInstances({ ...common, clock, store: { list: async () => [] } });
    const { signal } = new AbortController();
    const ended: string[] = [];
    const waits: string[] = [];
    const wait = async (uid: string): Promise<void> => {
      const onWait = (message: string): void => void waits.push(`${uid}: ${message}`);
      await orphans.endedFor(uid, { signal, onWait });
      ended.push(uid);
    };
    const waiting = [wait("pod-1"), wait("pod-2")];
    await cloud.faults.fail({ operation: "list", code: "CLOUD_UNAVAILABLE" });
    const beginning = orphans.begin(signal);
    const paused = { what: "a pause", limitMs: 60_000 };
    await eventually(() => clock.sleepers > 0, paused);
    await cloud.faults.fail({ operation: "terminate", code: "CLOUD_THROTTLED" });
    await clock.advance(1000);
    // The call for the first instance has failed, and the second one has ended.
    await waiting[1];
    await eventually(() => clock.sleepers > 0, paused);
    assert.deepEqual([ended, await driver.list()], [["pod-2"], [ofPod]]);
    await clock.advance(2000);
    await Promise.all([...waiting, beginning]);
    assert.deepEqual([ended, await driver.list()], [["pod-2", "pod-1"], []]);
    const list = /^(pod-1|pod-2): Cannot tell whether an instance still runs this pod: /;
    for (const message of waits.slice(0, 2)) assert.match(message, list);
    const end = (id: string): string =>
      `Waiting for the end of instance "${id}": it has no Cell and may still run this pod`;
    assert.deepEqual(waits.slice(2, 4), [`pod-1: ${end(ofPod.id)}`, `pod-2: ${end(stoodBy.id)}`]);
  });

  it("keeps no pod that was bound after the start from an instance that names no pod", async () => {
    const { driver, launch, common } = newCloud();
    const { id } = await launch("a");
    const endless = (): Promise<never> => new Promise(() => {});
    const changed = new Proxy(driver, {
      get: (target, name) =>
        name === "waitForTerminated"
          ? endless
          : (Reflect.get(target, name, target) as object | undefined),
    });
    const store = { list: async () => await Promise.resolve([]) };
    const orphans = new OrphanInstances({ ...common, driver: changed, store });
    const { signal } = new AbortController();
    void orphans.begin(signal);
    await orphans.endedFor("new", { signal, onWait: () => {} });
    const waits: string[] = [];
    void orphans.endedFor("pod-1", { signal, onWait: (message) => void waits.push(message) });
    assert.match(waits.join(), new RegExp(`end of instance "${id}"`));
  });

  it("tries again to end an instance although another one does not end", async () => {
    const clock = new ManualClock();
    const cloud = createSimulatedCloud({ clock, stopMs: 3_600_000 });
    const { common, launch } = newCloud();
    const driver = cloud.open({ owner: "kip" });
    const launching = Promise.all([launch("stuck", driver), launch("other", driver)]);
    await clock.advance(1000);
    const [stuck, other] = await launching;
    await driver.terminate(stuck.id);
    let failures = 0;
    const terminate = async (id: string): Promise<void> => {
      if (id === other.id && ++failures === 1)
        throw new CloudError("CLOUD_UNAVAILABLE", "The cloud is away");
      await driver.terminate(id);
    };
    const changed = new Proxy(driver, {
      get: (target, key) => (key === "terminate" ? terminate : Reflect.get(target, key)),
    });
    const store = { list: async () => [] };
    const orphans = new OrphanInstances({ ...common, driver: changed, clock, store });
    const ending = new AbortController();
    const beginning = orphans.begin(ending.signal);
    for (let second = 0; second < 10; second++) await clock.advance(1000);
    assert.equal((await driver.describe(other.id))?.state, "stopping");
    ending.abort();
    await beginning;
  });

  it("says once to each of many pods what it waits for, though all of their instances end one by one", async () => {
    const { driver, launch, common } = newCloud();
    const uids = Array.from({ length: 50 }, (_, index) => `pod-${index}`);
    for (const uid of uids) await launch(uid, driver, { "kip-pod-uid": uid });
    const orphans = new OrphanInstances({ ...common, store: { list: async () => [] } });
    const { signal } = new AbortController();
    const waits: string[] = [];
    const waiting = uids.map(async (uid) => {
      await orphans.endedFor(uid, { signal, onWait: () => void waits.push(uid) });
    });
    await orphans.begin(signal);
    await Promise.all(waiting);
    assert.deepEqual(waits.toSorted(), uids.toSorted());
  });

  it("keeps an instance that is launched while it lists, as any may be between the two lists", async () => {
    const { driver, launch, common, ends } = newCloud();
    const cells: Cell[] = [];
    const launchWithCell = async (uid: string): Promise<void> => {
      cells.push({ metadata: { uid } } as Cell); // the fields that are read
      await launch(uid);
    };
    await launchWithCell("before");
    const names = ["while the first is listed", "while the second is listed"];
    const answer = async <T>(items: readonly T[]): Promise<readonly T[]> => {
      const seen = [...items];
      await launchWithCell(names.shift() ?? "later");
      return seen;
    };
    const list = async () => await answer(await driver.list());
    const store = { list: async () => await answer(cells) };
    await new OrphanInstances({ ...common, driver: { ...driver, list }, store }).collect();
    const left = (await driver.list()).filter(({ state }) => state === "running");
    assert.deepEqual([left.length, ends], [3, []]);
  });

  for (const isEnded of [true, false])
    it(`counts no instance that ${isEnded ? "ended" : "is stopping"} with its Cell while it lists`, async () => {
      const { driver, launch, common, ends, logged } = newCloud();
      const { id } = await launch("a");
      const describe = async (): Promise<Instance | undefined> => {
        const now = await driver.describe(id);
        return now && !isEnded ? { ...now, state: "stopping" } : now;
      };
      const terminate = async (each: string): Promise<void> => await driver.terminate(each);
      const list = async (): Promise<readonly Instance[]> => await driver.list();
      const store = {
        list: async () => {
          if (isEnded) {
            await driver.terminate(id);
            await driver.waitForTerminated(id);
          }
          return []; // the Cell is gone
        },
      };
      const changed = { ...driver, list, describe, terminate };
      await new OrphanInstances({ ...common, driver: changed, store }).collect();
      await driver.waitForTerminated(id);
      assert.deepEqual(ends, []);
      assert.ok(!logged.join("").includes('"level":"warn"'), logged.join(""));
      assert.equal(logged.length, isEnded ? 0 : 1);
    });

  it("ends nothing when the cloud does not answer", async () => {
    const { cloud, driver, launch, collect } = newCloud();
    await launch("a");
    await cloud.faults.fail({ operation: "list", code: "CLOUD_UNAVAILABLE" });
    await assert.rejects(collect());
    assert.equal((await driver.list()).length, 1);
  });
});

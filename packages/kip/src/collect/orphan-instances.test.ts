import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createLogger, systemClock } from "@kip/base";
import type { Instance } from "@kip/cloud";
import { createSimulatedCloud } from "@kip/cloud/simulated";
import { eventually, ManualClock } from "@kip/testing";
import type { Cell } from "../state/cell.ts";
import { OrphanInstances } from "./orphan-instances.ts";

function newCloud() {
  const cloud = createSimulatedCloud();
  const driver = cloud.open({ owner: "kip" });
  const logged: string[] = [];
  const logger = createLogger({ level: "info", write: (line) => void logged.push(line) });
  const common = { driver, clusterID: "here", clock: systemClock, logger };
  const launch = async (token: string, owner = driver, tags = {}): Promise<Instance> => {
    const launched = await owner.launch({
      token,
      name: token,
      instanceType: "sim.1",
      launchType: "on-demand",
      image: "cell",
      rootDiskBytes: 0,
      userData: "",
      privateIpOnly: true,
      tags,
    });
    return await owner.waitForRunning(launched.id);
  };
  const collect = async (...uids: readonly string[]): Promise<number> => {
    const cells = uids.map((uid) => ({ metadata: { uid } }) as Cell); // all that is looked at
    const store = { list: async () => await Promise.resolve(cells) };
    return await new OrphanInstances({ ...common, store }).collect();
  };
  return { cloud, driver, launch, collect, common, logged };
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
    const { cloud, driver, launch, collect } = newCloud();
    const orphans = [await launch("a"), await launch("b")];
    await cloud.faults.fail({ operation: "terminate", code: "CLOUD_THROTTLED" });
    await collect();
    const left = (await driver.list()).filter(({ state }) => state === "running");
    assert.deepEqual(left, [orphans[0]]);
    await collect();
    await Promise.all(orphans.map(({ id }) => driver.waitForTerminated(id)));
  });

  it("has none of before the start of kip once those have ended, also if calls fail at first", async () => {
    const { cloud, driver, launch, common } = newCloud();
    const orphan = await launch("a");
    const clock = new ManualClock();
    const store = { list: async () => [] };
    const orphans = new OrphanInstances({ ...common, clock, store });
    const never = new AbortController().signal;
    let hasBegun = false;
    const begun = orphans.begun(never).then(() => (hasBegun = true));
    await cloud.faults.fail({ operation: "terminate", code: "CLOUD_THROTTLED" });
    const beginning = orphans.begin(never);
    await eventually(() => clock.sleepers > 0, { what: "a pause", limitMs: 60_000 });
    assert.deepEqual([hasBegun, await driver.list()], [false, [orphan]]);
    await clock.advance(1000);
    await Promise.all([begun, beginning]);
    assert.deepEqual(await driver.list(), []);
  });

  it("ends nothing when the cloud does not answer", async () => {
    const { cloud, driver, launch, collect } = newCloud();
    await launch("a");
    await cloud.faults.fail({ operation: "list", code: "CLOUD_UNAVAILABLE" });
    await assert.rejects(collect());
    assert.equal((await driver.list()).length, 1);
  });
});

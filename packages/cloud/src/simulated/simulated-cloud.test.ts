import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ManualClock } from "@kip/testing";
import type { Instance, LaunchRequest } from "../cloud-driver.ts";
import { describeCloudDriver } from "../testing/index.ts";
import { simulatedConformance } from "../testing/simulated-conformance.ts";
import { createSimulatedCloud } from "./simulated-cloud.ts";
import { CloudError } from "../errors.ts";

describeCloudDriver("simulated cloud", simulatedConformance());

const request = (token: string, changes: Partial<LaunchRequest> = {}): LaunchRequest => ({
  token,
  name: token,
  instanceType: "sim.1",
  launchType: "on-demand",
  image: "cell",
  rootDiskBytes: 0,
  userData: new Uint8Array(),
  privateIpOnly: true,
  tags: {},
  ...changes,
});

/** Advances the time until nothing is waiting. */
async function runOut(clock: ManualClock): Promise<void> {
  do await clock.advance(1000);
  while (clock.sleepers > 0);
}

describe("createSimulatedCloud()", () => {
  it("does the same at the same times for the same seed", async () => {
    const story = async (seed: number): Promise<readonly unknown[]> => {
      const clock = new ManualClock();
      const range = { minMs: 10, maxMs: 500 };
      const cloud = createSimulatedCloud({ clock, seed, startMs: range, callMs: range });
      const driver = cloud.open({ owner: "me" });
      const told: unknown[] = [];
      const life = async (token: string): Promise<void> => {
        const { id } = await driver.launch(request(token));
        told.push(clock.now(), await driver.waitForRunning(id));
        await driver.terminate(id);
        await driver.waitForTerminated(id);
        told.push(clock.now(), id);
      };
      const lives = Promise.all(["a", "b", "c"].map(life));
      await runOut(clock);
      await lives;
      return told;
    };
    assert.deepEqual(await story(1), await story(1));
    assert.notDeepEqual(await story(1), await story(2));
  });

  it("is pending, runs and stops by the clock alone", async () => {
    const clock = new ManualClock();
    const cloud = createSimulatedCloud({ clock, startMs: 60_000, stopMs: 30_000 });
    const driver = cloud.open({ owner: "me" });
    const began = clock.now();
    const { id, state } = await driver.launch(request("a"));
    assert.equal(state, "pending");
    const running = driver.waitForRunning(id);
    await runOut(clock);
    assert.equal((await running).state, "running");
    assert.equal(clock.now() - began, 60_000);
    await driver.terminate(id);
    assert.equal((await driver.describe(id))?.state, "stopping");
    const second = driver.launch(request("a")); // the token is taken until the end
    await runOut(clock);
    assert.notEqual((await second).id, id);
    assert.equal(clock.now() - began, 150_000);
  });

  it("lists and describes what was so a while ago", async () => {
    const clock = new ManualClock();
    const cloud = createSimulatedCloud({ clock, lagMs: 5000 });
    const driver = cloud.open({ owner: "me" });
    const { id } = await driver.launch(request("a"));
    assert.deepEqual([await driver.describe(id), await driver.list()], [undefined, []]);
    assert.equal((await driver.launch(request("a"))).id, id);
    await runOut(clock);
    assert.equal((await driver.describe(id))?.state, "running");
    await driver.terminate(id);
    assert.equal((await driver.describe(id))?.state, "running");
    await runOut(clock);
    assert.equal(await driver.describe(id), undefined);
  });

  it("has a limit for each owner", async () => {
    const cloud = createSimulatedCloud({ maxInstances: 1 });
    const driver = cloud.open({ owner: "me" });
    await driver.launch(request("a"));
    await driver.launch(request("a"));
    const second = driver.launch(request("b"));
    await assert.rejects(second, (error) => CloudError.is(error, "CLOUD_QUOTA"));
    await cloud.open({ owner: "other" }).launch(request("b"));
  });

  it("starts what an instance runs, and ends it with the instance", async () => {
    const events: string[] = [];
    const cloud = createSimulatedCloud({
      addresses: (slot) => ({ managementIp: `127.1.0.${slot}`, podIp: `127.2.0.${slot}` }),
      boot: ({ instance, userData, write }) => {
        events.push(`${instance.managementIp} ${Buffer.from(userData).toString()}`);
        write("agent is up\n");
        return () => events.push("ended");
      },
    });
    const driver = cloud.open({ owner: "me" });
    const { id } = await driver.launch(request("a", { userData: Buffer.from("hello") }));
    await driver.waitForRunning(id);
    assert.match(await driver.consoleOutput(id, 100), /agent is up\n$/);
    await cloud.faults.kill(id);
    assert.deepEqual(events, ["127.1.0.0 hello", "ended"]);
    assert.match(await driver.consoleOutput(id, 100), /agent is up\n$/);
  });

  it("keeps 5,000 instances, each with addresses of its own", async () => {
    const clock = new ManualClock();
    const cloud = createSimulatedCloud({ clock, startMs: 1000 });
    const driver = cloud.open({ owner: "me" });
    const launch = async (index: number): Promise<Instance> =>
      await driver.waitForRunning((await driver.launch(request(`token ${index}`))).id);
    const launching = Promise.all(Array.from({ length: 5000 }, (_, index) => launch(index)));
    await runOut(clock);
    const running = await launching;
    const addresses = new Set(running.flatMap(({ managementIp, podIp }) => [managementIp, podIp]));
    assert.equal(addresses.size, 10_000);
    assert.equal((await driver.list()).length, 5000);
  });
});

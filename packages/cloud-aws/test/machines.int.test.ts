// Instances with machines, which the EC2 emulator starts and ends, with the real driver against moto.
import assert from "node:assert/strict";
import { once } from "node:events";
import { after, it } from "node:test";
import { CloudError, type Instance } from "@kip/cloud";
import type { Machine, MachineLaunch, Machines } from "../src/emulator/machines.ts";
import { whyNoMoto } from "../src/emulator/moto-server.ts";
import { launchRequest } from "./support/launch-request.ts";
import { openTestEc2 } from "./support/test-ec2.ts";

/** Machines that only consist of addresses in moto's first subnet. */
class NotedMachines implements Machines {
  readonly launches: MachineLaunch[] = [];
  readonly names: string[] = [];
  readonly ends: string[] = [];
  readonly tags: string[] = [];
  refusal: Error | undefined;
  onEnd: (how: "itself" | "taken") => void = () => {};

  async start(launch: MachineLaunch, onEnd: typeof this.onEnd): Promise<Machine> {
    if (this.refusal) throw this.refusal;
    this.onEnd = onEnd;
    const number = 100 + 2 * this.launches.push(launch);
    const managementIp = `172.31.0.${number}`;
    return await Promise.resolve({
      managementIp,
      podIp: `172.31.0.${number + 1}`,
      named: (id: string) => this.names.push(id),
      tagged: async (tags) => void (await Promise.resolve(this.tags.push(...Object.values(tags)))),
      console: async () => await Promise.resolve(`console of ${managementIp}`),
      end: async () => void (await Promise.resolve(this.ends.push(managementIp))),
    });
  }
}

async function describeMachines(): Promise<void> {
  const machines = new NotedMachines();
  const ec2 = await openTestEc2({}, machines);
  after(() => ec2[Symbol.asyncDispose]());
  const driver = await ec2.open();
  after(() => driver[Symbol.asyncDispose]());

  it("EC2: an instance has its machine's addresses and console, and the machine the launch's user data", async () => {
    const userData = Buffer.from([0x1f, 0x8b, 0, 255]);
    const tags = { "kip-pod-name": "web" };
    const { id } = await driver.launch(launchRequest(ec2, "first", { userData, tags }));
    const { managementIp, podIp } = await driver.waitForRunning(id);
    assert.deepEqual([managementIp, podIp], ["172.31.0.102", "172.31.0.103"]);
    const [launch] = machines.launches;
    assert.deepEqual(Buffer.from(launch?.userData ?? []), userData);
    assert.deepEqual(
      [launch?.instanceType, launch?.imageId, launch?.hopLimit, launch?.isSpot],
      ["m5.large", ec2.image, 1, false],
    );
    assert.deepEqual([launch?.tags["KipCell"], launch?.tags["kip-pod-name"]], ["first", "web"]);
    assert.deepEqual(machines.names, [id]);
    assert.equal(await driver.consoleOutput(id, 1000), "console of 172.31.0.102");
    await driver.setTags(id, { "kip-pod-name": "next" });
    assert.ok(machines.tags.includes("next"));
    await driver.terminate(id);
    await driver.waitForTerminated(id);
    assert.deepEqual(machines.ends, ["172.31.0.102"]);
  });

  it("EC2: an instance ends with its machine, and says why", async () => {
    for (const [how, reason] of [
      ["itself", /Instance initiated shutdown/],
      ["taken", /Spot instance termination/],
    ] as const) {
      const { id } = await driver.launch(launchRequest(ec2, how, { launchType: "spot" }));
      await driver.waitForRunning(id);
      const events = new EventTarget();
      const ended = once(events, "ended");
      let instance: Instance | undefined;
      const stop = driver.onTerminated((each) => {
        instance = each;
        events.dispatchEvent(new Event("ended"));
      });
      machines.onEnd(how);
      await ended;
      stop();
      assert.equal(instance?.id, id);
      assert.match(instance.stateReason ?? "", reason);
    }
    assert.ok(machines.launches.at(-1)?.isSpot);
  });

  it("EC2: refuses as the machines do, and keeps no machine for what moto refuses", async () => {
    const before = machines.ends.length;
    await assert.rejects(driver.launch(launchRequest(ec2, "x", { instanceType: "m5.tiny" })), {
      code: "CLOUD_INVALID_REQUEST",
    });
    assert.equal(machines.ends.length, before + 1);
    for (const code of ["CLOUD_NO_CAPACITY", "CLOUD_QUOTA"] as const) {
      machines.refusal = new CloudError(code, "no room", { scope: {} });
      await assert.rejects(driver.launch(launchRequest(ec2, `no-${code}`)), { code });
    }
  });
}

const skip = await whyNoMoto();
if (skip === undefined) await describeMachines();
else it("EC2: machines", { skip }, () => {});

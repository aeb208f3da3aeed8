// The driver's reaction to EC2's own error codes, lost responses and lag, through the real SDK, and what is left in moto.
import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import type { CapacityScope, CloudErrorCode, LaunchRequest } from "@kip/cloud";
import { eventually } from "@kip/testing";
import type { Ec2Fault } from "../src/emulator/ec2-faults.ts";
import { launchRequest } from "./support/launch-request.ts";
import { whyNoMoto } from "../src/emulator/moto-server.ts";
import { openTestEc2 } from "./support/test-ec2.ts";

const skip = await whyNoMoto();
if (skip === undefined) await describeFaults();
else it("EC2: faults", { skip }, () => {});

async function describeFaults(): Promise<void> {
  const ec2 = await openTestEc2({ pendingMs: 60, stopMs: 100, lagMs: 700 });
  after(() => ec2[Symbol.asyncDispose]());
  const { faults, actions } = ec2.proxy;
  const place = { instanceType: "m5.large", zone: "us-east-1a", launchType: "on-demand" } as const;
  let count = 0;
  const request = (more: Partial<LaunchRequest> = {}): LaunchRequest => {
    count += 1;
    return launchRequest(ec2, `token-${count}`, { name: `cell-${count}`, ...more });
  };
  const driver = await ec2.open();
  after(() => driver[Symbol.asyncDispose]());
  await driver.launch(request()); // creates the group and reads the image
  const { zone } = driver;
  /** How many times an action was sent during a call. */
  const sent = async (action: string, call: () => Promise<unknown>): Promise<number> => {
    const before = actions.length;
    await call();
    return actions.slice(before).filter((each) => each === action).length;
  };
  const refusal = (code: string, more: Partial<Ec2Fault> = {}): void =>
    faults.add({ action: "RunInstances", code, ...more });

  describe("EC2: refused launches", { timeout: 120_000 }, () => {
    const refusals: readonly (readonly [string, CloudErrorCode, CapacityScope, number?])[] = [
      ["InsufficientInstanceCapacity", "CLOUD_NO_CAPACITY", { ...place, zone }, 500],
      [
        "InsufficientHostCapacity",
        "CLOUD_NO_CAPACITY",
        { ...place, zone, launchType: "dedicated" },
      ],
      ["SpotMaxPriceTooLow", "CLOUD_NO_CAPACITY", { ...place, zone }],
      ["Unsupported", "CLOUD_NO_CAPACITY", { instanceType: place.instanceType, zone }],
      ["InsufficientFreeAddressesInSubnet", "CLOUD_NO_CAPACITY", { zone }],
      ["VcpuLimitExceeded", "CLOUD_QUOTA", {}],
      ["InstanceLimitExceeded", "CLOUD_QUOTA", {}],
      ["MaxSpotInstanceCountExceeded", "CLOUD_QUOTA", {}],
      ["UnauthorizedOperation", "CLOUD_AUTH", {}, 403],
      ["AuthFailure", "CLOUD_AUTH", {}, 401],
      ["InvalidAMIID.NotFound", "CLOUD_NOT_FOUND", {}],
      ["InvalidParameterCombination", "CLOUD_INVALID_REQUEST", {}],
      ["SomethingNew", "CLOUD_UNKNOWN", {}],
    ];
    for (const [code, meaning, scope, status] of refusals)
      it(`makes ${meaning} of ${code}, starts nothing, and succeeds when asked again`, async () => {
        // As often as the SDK sends a call that fails because of the server.
        refusal(code, { status, calls: status === 500 ? 3 : 1 });
        const asked = request();
        await assert.rejects(driver.launch(asked), { code: meaning, scope });
        assert.equal(await ec2.countOf(asked.token), 0);
        const { token } = await driver.launch(asked);
        assert.equal(await ec2.countOf(token), 1);
      });
  });

  describe("EC2: calls that fail on the way", { timeout: 120_000 }, () => {
    it("repeats a call that is throttled, and says so when that goes on", async () => {
      refusal("RequestLimitExceeded", { status: 503, calls: 2 });
      assert.equal(await sent("RunInstances", () => driver.launch(request())), 3);
      refusal("RequestLimitExceeded", { status: 503, calls: 3 });
      const asked = request();
      await assert.rejects(driver.launch(asked), { code: "CLOUD_THROTTLED", retryable: true });
      assert.equal(await ec2.countOf(asked.token), 0);
    });

    it("starts one instance although each answer to the launch is lost", async () => {
      for (const calls of [1, 3, 5]) {
        refusal("lost", { calls });
        const asked = request();
        // EC2 does not show the instance yet, so a launch may fail. Kip repeats it with the same token.
        const first = await driver.launch(asked).catch(() => driver.launch(asked));
        assert.equal((await driver.launch(asked)).id, first.id);
        assert.equal(await ec2.countOf(asked.token), 1, `${calls} lost answers`);
      }
    });

    it("starts one instance when a launch that failed is repeated by another process", async () => {
      refusal("lost", { calls: 3 });
      const asked = request();
      await assert.rejects(driver.launch(asked), { code: "CLOUD_UNAVAILABLE" });
      await using other = await ec2.open();
      const { id } = await other.launch(asked);
      assert.equal((await driver.launch(asked)).id, id);
      assert.equal(await ec2.countOf(asked.token), 1);
    });

    it("ends an instance that EC2 does not show yet, whose end is throttled and whose answer is lost", async () => {
      const asked = request();
      const { id } = await driver.launch(asked);
      faults.add({ action: "TerminateInstances", code: "RequestLimitExceeded", status: 503 });
      faults.add({ action: "TerminateInstances", code: "lost" });
      await driver.terminate(id);
      await driver.waitForTerminated(id);
      assert.equal(await ec2.countOf(asked.token), 0);
    });

    it("shows and awaits what it has launched while answers lack it, and keeps waiting while look-ups fail", async () => {
      const asked = request();
      const { id } = await driver.launch(asked);
      assert.equal((await driver.describe(id))?.id, id);
      assert.ok((await driver.list()).some((each) => each.id === id));
      const before = actions.length;
      const running = driver.waitForRunning(id);
      await eventually(() => actions.length > before); // it has checked once
      faults.add({ action: "DescribeInstances", code: "Unavailable", status: 503, calls: 4 });
      assert.equal((await running).state, "running");
      await driver.terminate(id);
      await driver.waitForTerminated(id);
      assert.equal(await driver.describe(id), undefined);
    });
  });
}

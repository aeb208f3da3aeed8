// Many lives of instances while EC2 fails at random. Nothing of ours may be left. KIP_E2E_ALL=1: 500 lives.
import assert from "node:assert/strict";
import { after, it } from "node:test";
import { inParallel, isCodedError } from "@kip/base";
import { CloudError, type CloudDriver, type Instance, type LaunchRequest } from "@kip/cloud";
import { seededRandom } from "@kip/cloud/simulated";
import { isWholeRun } from "@kip/testing";
import type { Ec2Fault } from "../src/emulator/ec2-faults.ts";
import { launchRequest } from "./support/launch-request.ts";
import { whyNoMoto } from "../src/emulator/moto-server.ts";
import { openTestEc2, type TestEc2 } from "./support/test-ec2.ts";
import { itemsOf, parseXml, textOf } from "../src/emulator/xml.ts";

const lives = isWholeRun ? 500 : 24;
const atOnce = 8;
/** Launch types of each ten lives, by position. The others are on demand. */
const launchTypes: Readonly<Record<number, LaunchRequest["launchType"]>> = {
  2: "dedicated",
  3: "dedicated",
  7: "spot",
};
const seed = Number(process.env["KIP_FAULT_SEED"] ?? Math.floor(Math.random() * 2 ** 31));
const title = `EC2: leaves nothing after ${lives} launches and ends with faults (KIP_FAULT_SEED=${seed})`;

it(
  title,
  { skip: (await whyNoMoto()) ?? false, timeout: isWholeRun ? 3_600_000 : 300_000 },
  async (context) => {
    // A process that does not know an instance looks twice before it treats the instance as gone. The lag is shorter than that
    // pause.
    const ec2 = await openTestEc2({ pendingMs: 40, stopMs: 60, lagMs: 40 });
    after(() => over.abort());
    after(() => ec2[Symbol.asyncDispose]());
    const random = seededRandom(seed); // which call gets which also depends on their order
    const { faults } = ec2.proxy;
    // Acts like a kip that is sometimes killed. The next process finds what is left by its tag.
    const open = async () => await ec2.open({ attempts: 2, dedicatedHosts: true });
    const drivers = [await open(), await open()] as const;
    after(() => Promise.all(drivers.map((driver) => driver[Symbol.asyncDispose]())));
    faults.random = (action) => faultOf(action, random());
    const counts = { launched: 0, refused: 0, abandoned: 0 };
    await inParallel(Array(lives).keys(), atOnce, async (index) => {
      const launchType = launchTypes[index % 10] ?? "on-demand";
      const request = launchRequest(ec2, `life-${index}`, { launchType });
      if (random() < 0.1) {
        // Killed right after the call, so that no process gets the response.
        await drivers[0].launch(request).catch(expectCloudError);
        counts.abandoned += 1;
        return;
      }
      const instance = await launched(drivers, request);
      if (instance === undefined) {
        counts.refused += 1;
        return;
      }
      counts.launched += 1;
      await ended(drivers[index % 2 === 0 ? 0 : 1], instance.id, random() < 0.5);
    });
    assert.equal(counts.launched + counts.refused + counts.abandoned, lives);
    assert.ok(counts.launched > lives / 2, JSON.stringify(counts));

    // A kip that starts now ends all instances without a Cell. Only the abandoned ones may exist.
    await using next = await untilDone(open);
    const orphans = await untilDone(() => next.list());
    assert.ok(orphans.length <= counts.abandoned, `${orphans.length} instances were left`);
    for (const { id } of orphans) await ended(next, id, false);
    const { hosts } = next;
    assert.ok(hosts && ec2.proxy.actions.includes("AllocateHosts"), "no instance was on a host");
    await untilDone(() => hosts.releaseEmpty());
    faults.clear();
    assert.deepEqual(await remains(ec2), []);
    context.diagnostic(`${JSON.stringify(counts)}, ${ec2.proxy.actions.length} calls`);
  },
);

/** Ends the retries that still run when the test has failed. */
const over = new AbortController();

/** Fails a share of all calls with EC2's errors. */
function faultOf(action: string, roll: number): Ec2Fault | undefined {
  if (roll < 0.08) return { code: "lost" };
  if (roll < 0.14) return { code: "RequestLimitExceeded", status: 503 };
  if (roll < 0.18) return { code: "InternalError", status: 500 };
  if (action === "RunInstances" && roll < 0.24) return { code: "InsufficientInstanceCapacity" };
  if (action === "RunInstances" && roll < 0.27) return { code: "VcpuLimitExceeded" };
  return undefined;
}

/** Repeats a launch like kip, in one of two processes. Undefined if the cloud has refused it. */
async function launched(
  drivers: readonly [CloudDriver, CloudDriver],
  request: LaunchRequest,
): Promise<Instance | undefined> {
  for (let attempt = 0; ; attempt++) {
    over.signal.throwIfAborted();
    try {
      return await drivers[attempt % 2 === 0 ? 0 : 1].launch(request);
    } catch (error) {
      if (CloudError.is(error, "CLOUD_NO_CAPACITY")) return undefined;
      if (!isCodedError(error) || !error.retryable) throw error;
    }
  }
}

async function ended(driver: CloudDriver, id: string, waits: boolean): Promise<void> {
  if (waits) {
    // Like kip: looks for an instance that its process has not launched, and then waits for it.
    assert.ok(await untilDone(() => driver.describe(id)), id);
    await untilDone(() => driver.waitForRunning(id));
  }
  await untilDone(() => driver.terminate(id));
  await untilDone(() => driver.waitForTerminated(id));
}

/** Repeats a call that failed and may be repeated. */
async function untilDone<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    over.signal.throwIfAborted();
    try {
      return await call();
    } catch (error) {
      if (!isCodedError(error) || !error.retryable) throw error;
    }
  }
}

function expectCloudError(error: unknown): void {
  if (!CloudError.is(error)) throw error;
}

/**
 * Everything in moto that would cost money. All of it is ours, even without its tags, because this moto belongs to the test.
 */
async function remains({ proxy }: TestEc2): Promise<readonly string[]> {
  const ask = async (action: string, more: Readonly<Record<string, string>> = {}) =>
    parseXml((await proxy.ask(action, more)).body);
  const living = await ask("DescribeInstances", {
    "Filter.1.Name": "instance-state-name",
    ...Object.fromEntries(
      ["pending", "running", "shutting-down", "stopping", "stopped"].map((state, index) => [
        `Filter.1.Value.${index + 1}`,
        state,
      ]),
    ),
  });
  const instances = itemsOf(living, "reservationSet").flatMap((each) =>
    itemsOf(each, "instancesSet").map((item) => textOf(item, "instanceId")),
  );
  const volumes = itemsOf(await ask("DescribeVolumes"), "volumeSet");
  const interfaces = itemsOf(await ask("DescribeNetworkInterfaces"), "networkInterfaceSet");
  const hosts = itemsOf(await ask("DescribeHosts"), "hostSet");
  return [
    ...instances,
    ...volumes.map((each) => textOf(each, "volumeId")),
    ...interfaces.map((each) => textOf(each, "networkInterfaceId")),
    ...hosts
      .filter((each) => textOf(each, "state") === "available")
      .map((each) => textOf(each, "hostId")),
  ];
}

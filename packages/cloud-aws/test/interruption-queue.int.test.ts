// Interruption notices from a queue, with the real SDK against moto's SQS.
import assert from "node:assert/strict";
import { after, it } from "node:test";
import type { InterruptionNotice } from "@kip/cloud";
import { eventually } from "@kip/testing";
import { iamPolicy } from "../src/policy/index.ts";
import { launchRequest } from "./support/launch-request.ts";
import { whyNoMoto } from "../src/emulator/moto-server.ts";
import { recordTargets } from "./support/recorded-targets.ts";
import { openTestEc2 } from "./support/test-ec2.ts";
import { createQueue, instanceEvent } from "./support/test-queue.ts";

const skip = await whyNoMoto();
if (skip === undefined) await describeQueue();
else it("SQS: notices of interruptions", { skip }, () => {});

async function describeQueue(): Promise<void> {
  const ec2 = await openTestEc2();
  after(() => ec2[Symbol.asyncDispose]());
  const sqs = await recordTargets(ec2.motoURL);
  after(() => sqs[Symbol.asyncDispose]());
  /** A driver with its own queue and an instance, and the notices that it reports. */
  const reading = async (name: string) => {
    const queue = await createQueue(ec2.motoURL, name);
    const interruptionQueueURL = `${sqs.url}${queue.path}`;
    const driver = await ec2.open({ interruptionQueueURL });
    const { id } = await driver.launch(launchRequest(ec2, name));
    await driver.waitForRunning(id);
    const heard: InterruptionNotice[] = [];
    // Instances of earlier tests still have their notices.
    driver.onInterruption((notice) => notice.instance.id === id && heard.push(notice));
    return { queue, driver, id, heard, interruptionQueueURL };
  };

  it("SQS: hands a warning on, in two minutes from its time, and deletes its message", async () => {
    const { queue, driver, id, heard } = await reading("warning");
    await using _ = driver;
    const time = new Date(Date.now() - 30_000).toISOString();
    await queue.send(instanceEvent(id, { time }));
    await eventually(() => heard.length === 1);
    const endsAt = new Date(Date.parse(time) + 120_000).toISOString();
    assert.deepEqual([heard[0]?.instance.id, heard[0]?.endsAt], [id, endsAt]);
    await queue.empty();
  });

  it("SQS: hands a recommendation to rebalance on, and an earlier end after it, not a later one", async () => {
    const { queue, driver, id, heard } = await reading("rebalance");
    await using _ = driver;
    const kind = { "detail-type": "EC2 Instance Rebalance Recommendation" };
    const detail = { "instance-id": id };
    await queue.send(instanceEvent(id, { ...kind, detail }));
    await eventually(() => heard.length === 1);
    await queue.send(instanceEvent(id));
    await eventually(() => heard.length === 2);
    await queue.send(instanceEvent(id, { ...kind, detail }));
    await queue.send(instanceEvent(id));
    await queue.empty();
    const leftMs = heard.map(({ endsAt }) => Date.parse(endsAt) - Date.now());
    assert.equal(heard.length, 2);
    assert.ok(Number(leftMs[0]) > 400_000 && Number(leftMs[1]) < 120_000, leftMs.join());
  });

  it("SQS: deletes what it cannot read, what says nothing, and notices of other instances", async () => {
    const { queue, driver, id, heard } = await reading("other");
    await using _ = driver;
    await using stranger = await ec2.open({ owner: "stranger" });
    const other = await stranger.launch(launchRequest(ec2, "foreign"));
    const bodies = [
      "no JSON",
      "[]",
      "{}",
      instanceEvent("i-*"),
      instanceEvent(id, { detail: {} }),
      instanceEvent(id, { source: "someone.else" }),
      instanceEvent(id, { "detail-type": "EC2 Instance State-change Notification" }),
      instanceEvent(other.id),
      instanceEvent("i-0123456789abcdef0"),
    ];
    for (const body of bodies) await queue.send(body);
    await queue.empty();
    assert.deepEqual(heard, []);
  });

  it("SQS: keeps a message until its notice is noted at the instance, and hands it on once", async () => {
    const { queue, driver, id, heard, interruptionQueueURL } = await reading("kept");
    const action = "CreateTags";
    ec2.proxy.faults.add({ action, code: "UnauthorizedOperation", status: 403, calls: 2 });
    await queue.send(instanceEvent(id));
    await queue.empty();
    const tries = ec2.proxy.actions.filter((each) => each === action).length;
    assert.deepEqual([heard.length, tries >= 3], [1, true]);
    await driver[Symbol.asyncDispose]();
    // Another process, which receives no message.
    await using later = await ec2.open({ interruptionQueueURL });
    const again: InterruptionNotice[] = [];
    later.onInterruption((notice) => again.push(notice));
    await eventually(() => again.some(({ instance }) => instance.id === id));
    assert.equal(again.find(({ instance }) => instance.id === id)?.endsAt, heard[0]?.endsAt);
  });

  it("SQS: goes on after failures, and calls no action that kip iam print leaves out", async () => {
    sqs.refusal = { status: 403, code: "AccessDenied" };
    const { queue, driver, id, heard, interruptionQueueURL } = await reading("policy");
    await using _ = driver;
    await queue.send(instanceEvent(id));
    sqs.refusal = undefined;
    await eventually(() => heard.length === 1);
    await queue.empty();
    const policy = iamPolicy({ interruptionQueueURL });
    const allowed = policy.Statement.flatMap(({ Action }) => Action);
    const called = new Set(sqs.calls.map(({ action }) => `sqs:${action}`));
    assert.deepEqual([...called].sort(), ["sqs:DeleteMessage", "sqs:ReceiveMessage"]);
    for (const name of called) assert.ok(allowed.includes(name), name);
  });
}

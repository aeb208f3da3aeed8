import assert from "node:assert/strict";
import { after, it } from "node:test";
import { systemClock } from "@kip/base";
import type { CloudDriver } from "@kip/cloud";
import {
  createCloudFaults,
  faultyCloud,
  type FaultRule,
  type FaultRuleStore,
} from "@kip/cloud/faults";
import { describeCloudDriver } from "@kip/cloud/testing";
import { iamPolicy } from "../src/policy/index.ts";
import { whyNoMoto } from "../src/emulator/moto-server.ts";
import { openTestEc2 } from "./support/test-ec2.ts";
import { childOf, parseXml, textOf } from "../src/emulator/xml.ts";
import { createQueue, instanceEvent } from "./support/test-queue.ts";

const missing = await whyNoMoto();
if (missing === undefined) await describeAwsCloud();
else it("EC2: CloudDriver", { skip: missing }, () => {});

async function describeAwsCloud(): Promise<void> {
  const ec2 = await openTestEc2({ pendingMs: 60, stopMs: 150 });
  after(() => ec2[Symbol.asyncDispose]());
  const rules = memoryRules();
  const queue = await createQueue(ec2.motoURL, "conformance");
  const interruptionQueueURL = `${ec2.motoURL}${queue.path}`;
  const open = async (owner: string): Promise<CloudDriver> =>
    faultyCloud(
      // Another owner has its own queue.
      await ec2.open({ owner, ...(owner === "tests" && { interruptionQueueURL }) }),
      { rules, clock: systemClock },
    );

  describeCloudDriver("EC2", {
    open: () => open("tests"),
    openAsStranger: () => open("stranger"),
    imageSpec: { name: "kip-cell-test" },
    consoleText: /Linux version/,
    faults: createCloudFaults({
      rules,
      clock: systemClock,
      kill: async (id) => await ec2.proxy.kill(id),
      interrupt: async (id, noticeMs) => {
        await queue.send(instanceEvent(id));
        // The notice must come before the end, even if this machine is slow.
        const end = async () => await queue.empty().then(async () => await ec2.proxy.kill(id));
        setTimeout(() => void end().catch(() => {}), noticeMs).unref();
      },
    }),
    userDataOf: async ({ id }) => {
      const asked = { InstanceId: id, Attribute: "userData" };
      const { body } = await ec2.proxy.ask("DescribeInstanceAttribute", asked);
      return Buffer.from(textOf(childOf(parseXml(body), "userData"), "value"), "base64");
    },
    without: {
      callCount: "EC2 reports no changes by itself: one loop asks for all who wait",
    },
  });

  it("calls no action that kip iam print leaves out", () => {
    const allowed = new Set(
      iamPolicy({ switchesSourceDestCheck: true }).Statement.flatMap(({ Action }) => Action),
    );
    const called = new Set(ec2.proxy.actions.map((action) => `ec2:${action}`));
    assert.ok(called.size > 10, [...called].join(" "));
    assert.deepEqual(
      [...called].filter((name) => !allowed.has(name)),
      [],
    );
  });
}

function memoryRules(): FaultRuleStore {
  let rules: readonly FaultRule[] = [];
  return {
    read: async () => await Promise.resolve(rules),
    update: async (change) => {
      rules = change(rules);
      await Promise.resolve();
    },
  };
}

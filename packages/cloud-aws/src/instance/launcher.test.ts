import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Instance } from "@kip/cloud";
import { ManualClock } from "@kip/testing";
import {
  awsError,
  describedInstance,
  fakeCloud,
  launchRequest,
  reservations,
} from "../testing/fake-ec2.ts";

const isFirst = (clientToken = ""): boolean => clientToken.endsWith("-0");

const idOf = (outcome: PromiseSettledResult<Instance>): unknown =>
  outcome.status === "fulfilled" ? outcome.value.id : outcome.reason;

describe("Launcher", () => {
  it("starts the next instance of a Cell whose first one EC2 says has ended", async () => {
    const clock = new ManualClock();
    const { cloud, outcome } = fakeCloud(clock, {
      RunInstances: ({ ClientToken }) => {
        if (isFirst(ClientToken)) throw awsError("IdempotentInstanceTerminated");
        return { Instances: [describedInstance("i-2", "pending")] };
      },
    });
    assert.equal(idOf(await outcome(cloud.launch(launchRequest))), "i-2");
  });

  it("starts no second instance of a Cell while the first one is shutting down", async () => {
    let state = "shutting-down";
    let first = "";
    const startedWhile: string[] = [];
    const clock = new ManualClock();
    const { cloud, outcome } = fakeCloud(clock, {
      DescribeInstances: () =>
        reservations(describedInstance("i-1", state, { clientToken: first })),
      RunInstances: ({ ClientToken = "" }) => {
        if (isFirst(ClientToken)) {
          first = ClientToken;
          throw awsError("IdempotentParameterMismatch");
        }
        startedWhile.push(state);
        return { Instances: [describedInstance("i-2", "pending")] };
      },
    });
    const launched = outcome(cloud.launch(launchRequest));
    void clock.sleep(20_000).then(() => (state = "terminated"));
    assert.equal(idOf(await launched), "i-2");
    assert.deepEqual(startedWhile, ["terminated"]);
  });

  it("fails, to be asked again, while an instance does not end", async () => {
    let first = "";
    const clock = new ManualClock();
    const { cloud, outcome } = fakeCloud(clock, {
      DescribeInstances: () =>
        reservations(describedInstance("i-1", "shutting-down", { clientToken: first })),
      RunInstances: ({ ClientToken = "" }) => {
        first = ClientToken;
        throw awsError("IdempotentParameterMismatch");
      },
    });
    assert.match(String(idOf(await outcome(cloud.launch(launchRequest)))), /still ending/);
    assert.ok(isFirst(first), "no other client token was used");
  });

  it("returns the instance whose answer was lost when EC2 shows it at last", async () => {
    let first = "";
    let shown = reservations();
    const clock = new ManualClock();
    const { cloud, outcome } = fakeCloud(clock, {
      DescribeInstances: () => shown,
      RunInstances: ({ ClientToken = "" }) => {
        first ||= ClientToken;
        throw awsError("IdempotentParameterMismatch");
      },
    });
    void clock.sleep(10_000).then(() => {
      shown = reservations(describedInstance("i-1", "pending", { clientToken: first }));
    });
    assert.equal(idOf(await outcome(cloud.launch(launchRequest))), "i-1");
  });
});

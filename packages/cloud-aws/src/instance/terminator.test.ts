import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type * as sdk from "@aws-sdk/client-ec2";
import { CloudError } from "@kip/cloud";
import { ManualClock } from "@kip/testing";
import { awsError, describedInstance, fakeCloud, reservations } from "../testing/fake-ec2.ts";

const notEnded = "i-9";
const ids = ["i-1", "i-2", notEnded, "i-3", "i-4"];

/** Ends all of {@link ids} at once. Each call that includes {@link notEnded} fails. */
async function endAll(failure: Error) {
  const ended: string[] = [];
  const calls: number[] = [];
  const clock = new ManualClock();
  const { cloud, outcome } = fakeCloud(clock, {
    DescribeInstances: () => reservations(...ids.map((id) => describedInstance(id, "running"))),
    TerminateInstances: ({ InstanceIds = [] }: sdk.TerminateInstancesCommandInput) => {
      calls.push(InstanceIds.length);
      if (InstanceIds.includes(notEnded)) throw failure;
      ended.push(...InstanceIds);
      return {};
    },
  });
  const outcomes = await Promise.all(ids.map(async (id) => await outcome(cloud.terminate(id))));
  const failed = outcomes.flatMap((each, at) =>
    each.status === "rejected" ? [[ids[at], each.reason] as const] : [],
  );
  return { ended: ended.toSorted(), calls, failed };
}

const others = ["i-1", "i-2", "i-3", "i-4"];

describe("Terminator", () => {
  it("ends the others of a call when EC2 names the one that it does not end", async () => {
    const text = `The instance '${notEnded}' may not be terminated. Modify its 'disableApiTermination' instance attribute and try again.`;
    const { ended, calls, failed } = await endAll(awsError("OperationNotPermitted", text));
    assert.deepEqual(ended, others);
    assert.deepEqual(
      calls.toSorted((a, b) => a - b),
      [1, 4, 5],
    );
    assert.deepEqual(
      failed.map(([id]) => id),
      [notEnded],
    );
    assert.ok(CloudError.is(failed[0]?.[1], "CLOUD_INVALID_REQUEST"));
  });

  it("finds the one that it does not end when EC2 does not name it", async () => {
    const { ended, failed } = await endAll(awsError("OperationNotPermitted"));
    assert.deepEqual(ended, others);
    assert.deepEqual(
      failed.map(([id]) => id),
      [notEnded],
    );
  });

  it("takes an instance that EC2 does not know as ended", async () => {
    const text = `The instance ID '${notEnded}' does not exist`;
    const { ended, failed } = await endAll(awsError("InvalidInstanceID.NotFound", text));
    assert.deepEqual(ended, others);
    assert.deepEqual(failed, []);
  });

  it("has the end of an instance asked for again that EC2 shows only after the first time", async () => {
    const clock = new ManualClock();
    const states = new Map([["i-1", "running"]]);
    const { cloud, outcome } = fakeCloud(clock, {
      DescribeInstances: () =>
        // Another process has launched it, and responses lag.
        clock.monotonic() < 5000
          ? reservations()
          : reservations(...[...states].map(([id, state]) => describedInstance(id, state))),
      TerminateInstances: ({ InstanceIds = [] }: sdk.TerminateInstancesCommandInput) => {
        for (const id of InstanceIds) states.set(id, "terminated");
      },
    });
    const end = async () => {
      await cloud.terminate("i-1");
      await clock.sleep(4000);
      await cloud.waitForTerminated("i-1");
    };
    const first = await outcome(end());
    assert.ok(first.status === "rejected" && CloudError.is(first.reason, "CLOUD_UNAVAILABLE"));
    assert.equal((await outcome(end())).status, "fulfilled");
    assert.deepEqual([...states.values()], ["terminated"]);
  });

  it("has the end of an instance asked for again that EC2 shows, but did not find to end it", async () => {
    const clock = new ManualClock();
    let state = "running";
    let refusals = 1;
    const { cloud, outcome } = fakeCloud(clock, {
      DescribeInstances: () => reservations(describedInstance("i-1", state)),
      TerminateInstances: () => {
        // Responses lag: another one had it already.
        if (refusals-- > 0) throw awsError("InvalidInstanceID.NotFound", "i-1 does not exist");
        state = "terminated";
      },
    });
    const end = async () => {
      await cloud.terminate("i-1");
      await cloud.waitForTerminated("i-1");
    };
    const first = await outcome(end());
    assert.ok(first.status === "rejected" && CloudError.is(first.reason, "CLOUD_UNAVAILABLE"));
    assert.equal((await outcome(end())).status, "fulfilled");
    assert.equal(state, "terminated");
  });

  it("waits without a failure for the proof that an instance is gone which EC2 does not find to end it", async () => {
    const clock = new ManualClock();
    let isShown = true;
    const { cloud, outcome } = fakeCloud(clock, {
      DescribeInstances: () =>
        isShown ? reservations(describedInstance("i-1", "running")) : reservations(),
      TerminateInstances: () => {
        throw awsError("InvalidInstanceID.NotFound", "i-1 does not exist");
      },
    });
    await outcome(cloud.list());
    isShown = false;
    const end = async () => {
      await cloud.terminate("i-1");
      await cloud.waitForTerminated("i-1");
    };
    assert.equal((await outcome(end())).status, "fulfilled");
  });

  it("does not split a call that failed for another reason than one of its instances", async () => {
    for (const code of ["RequestLimitExceeded", "AuthFailure", "InternalError"]) {
      const { calls, failed } = await endAll(awsError(code));
      assert.deepEqual(calls, [5], code);
      assert.equal(failed.length, 5);
    }
  });
});

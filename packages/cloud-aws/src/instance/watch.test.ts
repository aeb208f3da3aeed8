import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CloudError, type Instance } from "@kip/cloud";
import { ManualClock } from "@kip/testing";
import { describedInstance, fakeCloud, launchRequest, reservations } from "../testing/fake-ec2.ts";

const spotLoss = "Server.SpotInstanceTermination";
const asked = "Client.UserInitiatedShutdown";

/** A cloud with the instance `i-1` in a given state, and the ends that its driver reports. */
function watched() {
  const now = { state: "running", reason: "", isShown: true };
  const clock = new ManualClock();
  const fake = fakeCloud(clock, {
    DescribeInstances: () =>
      now.isShown ? reservations(describedInstance("i-1", now.state, now)) : reservations(),
    RunInstances: () => ({ Instances: [describedInstance("i-1", "pending")] }),
    TerminateInstances: () => ({}),
  });
  const ended: Instance[] = [];
  fake.cloud.onTerminated((instance) => void ended.push(instance));
  return { ...fake, clock, now, ended };
}

describe("InstanceWatch", () => {
  it("reports no instance that is shutting down, and each that has ended", async () => {
    const { clock, now, ended } = watched();
    await clock.advance(16_000);
    Object.assign(now, { state: "shutting-down", reason: spotLoss });
    await clock.advance(60_000);
    assert.deepEqual(ended, []);
    now.state = "terminated";
    await clock.advance(60_000);
    assert.deepEqual(
      ended.map(({ id, state, stateReason }) => [id, state, stateReason]),
      [["i-1", "terminated", spotLoss]],
    );
  });

  it("reports what a person terminates at the next look, without a call of its own", async () => {
    const { clock, now, ended, actions } = watched();
    await clock.advance(16_000);
    Object.assign(now, { state: "terminated", reason: asked });
    await clock.advance(15_000);
    assert.deepEqual(
      ended.map(({ id }) => id),
      ["i-1"],
    );
    assert.deepEqual(actions, ["DescribeInstances", "DescribeInstances"]);
  });

  it("does not report what this driver was asked to end, or waits for", async () => {
    for (const end of ["terminate", "waitForTerminated"] as const) {
      const { cloud, clock, now, ended, outcome } = watched();
      await clock.advance(16_000);
      const ending = cloud[end]("i-1");
      await clock.advance(5000);
      Object.assign(now, { state: "terminated", reason: asked });
      await clock.advance(60_000);
      assert.equal((await outcome(ending)).status, "fulfilled");
      assert.deepEqual(ended, [], end);
    }
  });

  it("reports an end that no caller asked for, also to a caller who waits for it from then on", async () => {
    const { cloud, clock, now, ended, outcome } = watched();
    await clock.advance(16_000);
    Object.assign(now, { state: "terminated", reason: spotLoss });
    assert.equal((await outcome(cloud.waitForTerminated("i-1"))).status, "fulfilled");
    assert.deepEqual(
      ended.map(({ stateReason }) => stateReason),
      [spotLoss],
    );
  });

  it("goes on waiting when one answer lacks an instance that an earlier one had", async () => {
    const { cloud, clock, now, ended, outcome } = watched();
    now.state = "pending";
    const launched = await outcome(cloud.launch(launchRequest));
    assert.equal(launched.status, "fulfilled");
    await clock.advance(20_000); // a response has had it
    const running = outcome(cloud.waitForRunning("i-1"));
    const gone = outcome(cloud.waitForTerminated("i-1"));
    let isGone = false;
    void gone.then(() => (isGone = true));
    await clock.advance(100);
    now.isShown = false;
    await clock.advance(5000);
    assert.equal((await cloud.list()).length, 1);
    assert.equal(isGone, false);
    Object.assign(now, { isShown: true, state: "running" });
    assert.equal((await running).status, "fulfilled");
    assert.equal(isGone, false);
    Object.assign(now, { state: "terminated", reason: asked });
    await gone;
    assert.deepEqual(ended, []);
  });

  it("takes an instance that no answer has for a minute as ended", async () => {
    const { cloud, clock, now, ended, outcome } = watched();
    now.state = "pending";
    await clock.advance(16_000);
    const running = outcome(cloud.waitForRunning("i-1"));
    await clock.advance(100);
    now.isShown = false;
    const result = await running;
    assert.ok(
      result.status === "rejected" && CloudError.is(result.reason, "CLOUD_NOT_FOUND"),
      JSON.stringify(result),
    );
    assert.deepEqual(
      ended.map(({ stateReason }) => stateReason),
      ["EC2 no longer knows the instance"],
    );
    assert.deepEqual(await cloud.list(), []);
  });

  it("looks at an instance once it answers, every 2 s from then on, and not before", async () => {
    const { cloud, clock, now, actions, outcome } = watched();
    now.state = "pending";
    await outcome(cloud.launch(launchRequest));
    const looks = () => actions.filter((action) => action === "DescribeInstances").length;
    const asked: string[] = [];
    const answered = Promise.withResolvers<void>();
    const running = outcome(
      cloud.waitForRunning("i-1", undefined, async (address) => {
        asked.push(address);
        await answered.promise;
      }),
    );
    const lists = looks();
    await clock.advance(10_000);
    assert.deepEqual([asked, looks() - lists <= 1], [["10.0.0.1"], true]);
    const before = looks();
    answered.resolve();
    await clock.advance(100);
    assert.equal(looks(), before + 1);
    now.state = "running";
    assert.equal((await running).status, "fulfilled");
    assert.ok(looks() <= before + 3);
  });

  it("shows by its list that an instance cannot start, whatever answers, and has the wait end", async () => {
    const { cloud, clock, now, outcome } = watched();
    now.state = "pending";
    await outcome(cloud.launch(launchRequest));
    const stop = new AbortController();
    let signal: AbortSignal | undefined;
    const running = outcome(
      cloud.waitForRunning("i-1", stop.signal, async (_address, until) => {
        signal = until;
        await clock.sleep(1e9, until);
      }),
    );
    await clock.advance(1000);
    Object.assign(now, { state: "terminated", reason: "Server.InsufficientInstanceCapacity" });
    const result = await running;
    assert.ok(result.status === "rejected" && CloudError.is(result.reason, "CLOUD_NO_CAPACITY"));
    assert.equal(signal?.aborted, true);
  });

  it("looks every 2 s where nothing can say whether the instance answers", async () => {
    const { cloud, clock, now, outcome } = watched();
    now.state = "pending";
    await outcome(cloud.launch(launchRequest));
    const running = cloud.waitForRunning("i-1", undefined, async () => {
      throw new Error("no network");
    });
    await clock.advance(1000);
    now.state = "running";
    await clock.advance(2500);
    assert.equal((await running).state, "running");
  });

  it("looks twice for an instance that another process may have launched a moment ago", async () => {
    const { cloud, clock, now, outcome } = watched();
    now.isShown = false;
    void clock.sleep(1000).then(() => (now.isShown = true));
    const found = await outcome(cloud.describe("i-1"));
    assert.equal(found.status === "fulfilled" && found.value?.id, "i-1");
  });
});

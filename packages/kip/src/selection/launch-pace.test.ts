import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import { CloudError, type CloudErrorCode } from "@kip/cloud";
import { ManualClock } from "@kip/testing";
import { LaunchPace } from "./launch-pace.ts";

function start() {
  const clock = new ManualClock();
  const pace = new LaunchPace({ clock });
  /** The time of each launch, seconds, and its pod. */
  const made: string[] = [];
  const waits: string[] = [];
  let refusal: { code: CloudErrorCode; retryAfterMs?: number } | undefined;
  /** Number of launches that are accepted in spite of a refusal. */
  let room = 0;
  const abort = new AbortController();
  const run = async (
    pod: string,
    createdAt = 0,
    instanceType = "small",
    other?: AbortSignal,
  ): Promise<void> => {
    const launch = async (): Promise<void> => {
      made.push(`${pod} ${clock.monotonic() / 1000}`);
      await Promise.resolve();
      if (refusal && room-- <= 0) throw new CloudError(refusal.code, "Cannot launch", refusal);
    };
    const onWait = (_error: CloudError, inMs: number): void => void waits.push(`${pod} ${inMs}`);
    const { signal } = abort;
    const asked = {
      instanceType,
      launchType: "on-demand",
      createdAt,
      onWait,
      other,
      signal,
    } as const;
    await pace.run(asked, launch);
  };
  return {
    clock,
    pace,
    made,
    waits,
    abort,
    run,
    refuse: (next: typeof refusal) => void (refusal = next),
    makeRoom: (launches: number) => void (room = launches),
  };
}

describe("LaunchPace", () => {
  it("makes launches at once as long as none is refused", async () => {
    const { made, run } = start();
    await Promise.all([run("a"), run("b"), run("c")]);
    assert.deepEqual(made, ["a 0", "b 0", "c 0"]);
  });

  it("gives up a launch that waits its turn when it would be refused", async () => {
    const { clock, pace, made, run, refuse, abort } = start();
    refuse({ code: "CLOUD_THROTTLED" });
    void run("first");
    await clock.advance(0);
    const futile = new AbortController();
    const given = pace.run(
      {
        instanceType: "small",
        launchType: "on-demand",
        createdAt: 0,
        onWait: () => {},
        futile: futile.signal,
        signal: abort.signal,
      },
      async () => await Promise.resolve(made.push("given")),
    );
    const refusal = new CloudError("CLOUD_NO_CAPACITY", "None");
    futile.abort(refusal);
    await assert.rejects(given, refusal);
    refuse(undefined);
    await clock.advance(1000);
    assert.deepEqual(made, ["first 0", "first 1"]);
  });

  it("says why a launch would be refused also to a caller that has another choice", async () => {
    const { clock, pace, run, refuse, abort } = start();
    refuse({ code: "CLOUD_QUOTA" });
    void run("first");
    await clock.advance(0);
    const refusal = new CloudError("CLOUD_NO_CAPACITY", "None");
    const asked = {
      instanceType: "small",
      launchType: "on-demand",
      createdAt: 0,
      onWait: () => {},
      other: AbortSignal.abort(),
      futile: AbortSignal.abort(refusal),
      signal: abort.signal,
    } as const;
    await assert.rejects(
      pace.run(asked, async () => {}),
      refusal,
    );
  });

  it("grows one pause for all while the cloud throttles, and lets it fall again, the oldest first", async () => {
    const { clock, made, run, refuse } = start();
    refuse({ code: "CLOUD_THROTTLED" });
    const all = [run("young", 3), run("old", 1), run("middle", 2)];
    await clock.advance(6999);
    assert.deepEqual(made, ["young 0", "old 0", "middle 0", "old 1", "old 3"]);
    refuse(undefined);
    await clock.advance(60_000);
    await Promise.all(all);
    // The pauses were 4 s, then 2, then 1, then none.
    assert.deepEqual(made.slice(5), ["old 7", "middle 9", "young 10"]);
    assert.equal(clock.sleepers, 0);
    await run("later");
    assert.equal(made.at(-1), "later 66.999");
  });

  it("leaves a quota to a caller that has another choice, at once or once it has, and no turn is lost", async () => {
    const { clock, made, run, refuse } = start();
    refuse({ code: "CLOUD_QUOTA" });
    const now = AbortSignal.abort();
    await assert.rejects(run("spot", 0, "small", now), { code: "CLOUD_QUOTA" });
    const later = new AbortController();
    const old = run("old", 1, "small", later.signal);
    const young = run("young", 2);
    await clock.advance(1000);
    await assert.rejects(run("spot", 0, "small", now), { code: "CLOUD_QUOTA" });
    assert.deepEqual(made, ["spot 0", "old 0", "young 0"]);
    later.abort();
    await assert.rejects(old, { code: "CLOUD_QUOTA" });
    refuse(undefined);
    await clock.advance(4000);
    await young;
    assert.deepEqual(made.slice(3), ["young 5"]);
    await run("spot", 0, "small", now);
    assert.deepEqual(made.slice(4), ["spot 5"]);
    assert.equal(clock.sleepers, 0);
  });

  it("lets a caller that has another choice launch at once after a success", async () => {
    const { clock, made, run, refuse } = start();
    refuse({ code: "CLOUD_QUOTA" });
    const first = run("first");
    await clock.advance(14_999);
    refuse(undefined);
    await clock.advance(1);
    await first;
    await run("spot", 0, "small", AbortSignal.abort());
    assert.deepEqual(made, ["first 0", "first 5", "first 15", "spot 15"]);
  });

  it("keeps to the time that the cloud asks for, and says so", async () => {
    const { clock, made, waits, run, refuse } = start();
    refuse({ code: "CLOUD_THROTTLED", retryAfterMs: 20_000 });
    const launched = run("a");
    await clock.advance(19_000);
    assert.deepEqual([made, waits], [["a 0"], ["a 20000"]]);
    refuse(undefined);
    await clock.advance(1000);
    await launched;
    assert.deepEqual(made, ["a 0", "a 20"]);
  });

  it("slows down only launches of the same kind above a quota, until a machine ends", async () => {
    const { clock, pace, made, run, refuse } = start();
    refuse({ code: "CLOUD_QUOTA" });
    const launched = run("a");
    await clock.advance(1000);
    refuse(undefined);
    await run("b", 0, "large");
    assert.deepEqual(made, ["a 0", "b 1"]);
    pace.freed();
    await launched;
    assert.deepEqual(made, ["a 0", "b 1", "a 1"]);
    await run("c");
    assert.equal(made.at(-1), "c 1");
  });

  it("doubles the number of launches with each success below a raised quota, and waits again above it", async () => {
    const { clock, made, run, refuse, makeRoom } = start();
    refuse({ code: "CLOUD_QUOTA" });
    const all = Array.from({ length: 20 }, (_, pod) => run(`${pod}`, pod));
    for (const pauseMs of [5000, 10_000, 20_000, 40_000, 80_000]) await clock.advance(pauseMs);
    assert.equal(made.splice(0).length, 25);
    makeRoom(4);
    await clock.advance(160_000);
    assert.deepEqual(
      made.splice(0),
      Array.from({ length: 9 }, (_, pod) => `${pod} 315`),
      "one, two, four, and two for the success of one of these",
    );
    await clock.advance(19_000);
    assert.deepEqual(made, []);
    refuse(undefined);
    await clock.advance(300_000);
    await Promise.all(all);
    assert.equal(clock.sleepers, 0);
  });

  it("says once to each that it waits when launches that were under way together are refused one by one", async () => {
    const { pace, abort } = start();
    const { signal } = abort;
    const waits: number[] = [];
    const all = Array.from({ length: 20 }, async (_, index) => {
      const launch = async (): Promise<never> => {
        for (let turn = 0; turn < index; turn++) await setImmediate();
        throw new CloudError("CLOUD_THROTTLED", "Cannot launch");
      };
      const onWait = (): void => void waits.push(index);
      const kind = { instanceType: "small", launchType: "on-demand" } as const;
      await pace.run({ ...kind, createdAt: index, onWait, signal }, launch);
    });
    for (let turn = 0; turn < 30; turn++) await setImmediate();
    assert.deepEqual(waits, [...all.keys()]);
    abort.abort(new Error("enough"));
    await Promise.allSettled(all);
  });

  it("gives the next launch the turn of one that fails for another reason than the quota", async () => {
    const { clock, made, run, refuse } = start();
    refuse({ code: "CLOUD_QUOTA" });
    const all = Promise.allSettled([run("old", 1), run("young", 2)]);
    await clock.advance(14_000); // refused again after 5 seconds
    refuse({ code: "CLOUD_AUTH" });
    await clock.advance(1000);
    await all;
    assert.deepEqual(made.slice(3), ["old 15", "young 15"]);
    assert.equal(clock.sleepers, 0);
  });

  for (const code of ["CLOUD_NO_CAPACITY", "CLOUD_INVALID_REQUEST"] as const)
    it(`lets the pause of a throttled cloud fall when launches fail with ${code}`, async () => {
      const { clock, made, run, refuse } = start();
      refuse({ code: "CLOUD_THROTTLED" });
      const first = Promise.allSettled([run("first")]);
      await clock.advance(6999);
      refuse({ code });
      await clock.advance(1);
      await first;
      const all = Promise.allSettled(["a", "b", "c", "d"].map((pod) => run(pod)));
      await clock.advance(60_000);
      await all;
      // The pauses were 4 s, then 2, then 1, then none.
      assert.deepEqual(made.slice(3), ["first 7", "a 9", "b 10", "c 10", "d 10"]);
    });

  it("makes few launches in vain when hundreds wait for a cloud that accepts two a second", async () => {
    const { clock, pace, made, abort } = start();
    const { signal } = abort;
    let [accepted, room, filledAt] = [0, 10, 0];
    const launch = async (): Promise<void> => {
      made.push("");
      await clock.sleep(200);
      const now = clock.monotonic();
      room = Math.min(10, room + (now - filledAt) / 500);
      filledAt = now;
      if (room < 1) throw new CloudError("CLOUD_THROTTLED", "Too many calls");
      room -= 1;
      accepted += 1;
    };
    const asked = { instanceType: "small", launchType: "on-demand", onWait: () => {} } as const;
    const all = Array.from({ length: 200 }, (_, createdAt) =>
      pace.run({ ...asked, createdAt, signal }, launch),
    );
    await clock.advance(110_000);
    await Promise.all(all);
    assert.equal(accepted, 200);
    assert.ok(made.length < 800, `${made.length} launches`); // the first 200, and a few for each accepted one
    assert.equal(clock.sleepers, 0);
  });

  it("throws other errors at once, and lets a launch that is aborted go", async () => {
    const { clock, run, refuse, abort } = start();
    refuse({ code: "CLOUD_NO_CAPACITY" });
    await assert.rejects(run("a"), { code: "CLOUD_NO_CAPACITY" });
    refuse({ code: "CLOUD_THROTTLED" });
    const waiting = run("b");
    await setImmediate();
    abort.abort(new Error("enough"));
    await assert.rejects(waiting, /enough/);
    await setImmediate();
    assert.equal(clock.sleepers, 0);
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import type { CapacityScope } from "@kip/cloud";
import { assertScales, ManualClock } from "@kip/testing";
import { Shortages, type Placement, type ShortScope } from "./shortages.ts";

const small: Placement = { instanceType: "small", zone: "z", launchType: "on-demand" };
const ofSmall: CapacityScope = { instanceType: "small" };

function start(limit?: number) {
  const clock = new ManualClock();
  const shortages = new Shortages({ clock, limit });
  const turns: string[] = [];
  const abort = new AbortController();
  const wait = (podUid: string, createdAt: number, scopes = [ofSmall]): void => {
    shortages.untilTurn({ podUid, createdAt, scopes }, abort.signal).then(
      () => turns.push(podUid),
      () => turns.push(`${podUid} left`),
    );
  };
  const refuse = (
    podUid: string,
    scope: CapacityScope = ofSmall,
    retryAfterMs?: number,
    placement = small,
  ): void => shortages.refused({ podUid, placement, scope, retryAfterMs });
  return { clock, shortages, turns, wait, refuse, abort };
}

describe("Shortages", () => {
  it("remembers a shortage for its time", async () => {
    const { clock, shortages, refuse } = start();
    refuse("a");
    assert.deepEqual(shortages.inForce("b"), [ofSmall]);
    assert.equal(shortages.endsIn([ofSmall]), 30_000);
    await clock.advance(29_000);
    assert.deepEqual(shortages.inForce("b"), [ofSmall]);
    await clock.advance(1000);
    assert.deepEqual(shortages.inForce("b"), []);
    assert.equal(clock.sleepers, 0);
  });

  it("doubles the time with each refusal in a row, to five minutes, and begins again after a launch", async () => {
    const { clock, shortages, refuse } = start();
    const times: number[] = [];
    for (let turn = 0; turn < 6; turn++) {
      refuse("a");
      refuse("b"); // launched at the same time
      times.push(shortages.endsIn([ofSmall]));
      await clock.advance(shortages.endsIn([ofSmall]));
    }
    assert.deepEqual(times, [30_000, 60_000, 120_000, 240_000, 300_000, 300_000]);
    shortages.accepted(small, "a");
    refuse("a");
    assert.equal(shortages.endsIn([ofSmall]), 30_000);
  });

  it("tells the launches that wait their turn of a refusal that covers them", async () => {
    const { shortages, refuse, abort } = start();
    const told: string[] = [];
    const large = { ...small, instanceType: "large" };
    for (const [podUid, placement] of [
      ["a", small],
      ["b", small],
      ["c", large],
    ] as const)
      shortages.untilShort({ podUid, placement }, abort.signal).then(
        ({ instanceType }) => told.push(`${podUid} ${instanceType}`),
        () => told.push(`${podUid} left`),
      );
    refuse("a", { ...ofSmall, isQuota: true } as ShortScope);
    await setImmediate();
    assert.deepEqual(told, []);
    refuse("a");
    await setImmediate();
    assert.deepEqual(told, ["b small"]);
    abort.abort();
    await setImmediate();
    assert.deepEqual(told, ["b small", "a left", "c left"]);
  });

  it("lets one pod try all shortages of the same machine", async () => {
    const { clock, shortages, turns, wait, refuse } = start();
    const scopes = [{ zone: "z" }, ofSmall, { launchType: "on-demand" }];
    for (const scope of scopes) refuse("x", scope);
    for (const [age, pod] of ["a", "b", "c"].entries()) wait(pod, age, scopes);
    await clock.advance(30_000);
    assert.deepEqual([turns, shortages.inForce("a")], [["a"], []]);
    shortages.accepted(small, "a");
    await setImmediate();
    assert.deepEqual(turns, ["a", "b", "c"]);
  });

  it("names the shortage of a launch, unless a pod tries whether it has ended", async () => {
    const { clock, shortages, wait, refuse } = start();
    assert.equal(shortages.shortageOf(small), undefined);
    refuse("x");
    assert.deepEqual(shortages.shortageOf(small), ofSmall);
    assert.equal(shortages.shortageOf({ ...small, instanceType: "large" }), undefined);
    wait("slow", 0);
    wait("next", 1);
    await clock.advance(30_000 + 60_000); // it is the turn of the next one, and both may request it
    assert.equal(shortages.shortageOf(small), undefined);
    refuse("next");
    assert.deepEqual(shortages.shortageOf(small), ofSmall);
    const quota: ShortScope = { instanceType: "large", isQuota: true };
    const placement = { ...small, instanceType: "large" };
    shortages.refused({ podUid: "x", placement, scope: quota });
    assert.equal(shortages.shortageOf(placement), undefined);
  });

  it("lets one of the pods that were refused launch a machine first, and the others by its result", async () => {
    const { clock, shortages, refuse, abort } = start();
    const large = { ...small, instanceType: "large" };
    const told: string[] = [];
    const first = (podUid: string, placement = small): void => {
      shortages.untilFirst({ podUid, placement }, abort.signal).then(
        (mayLaunch) => told.push(`${podUid} ${mayLaunch}`),
        () => told.push(`${podUid} left`),
      );
    };
    const next = async (): Promise<readonly string[]> => {
      await setImmediate();
      return told.splice(0);
    };
    for (const pod of ["a", "b", "c"]) first(pod);
    first("other", large);
    assert.deepEqual(await next(), ["a true", "other true"]);
    refuse("a");
    first("late");
    assert.deepEqual(await next(), ["late false", "b false", "c false"]);
    for (const pod of ["b", "c"]) first(pod, large);
    assert.deepEqual(await next(), []);
    shortages.accepted(large, "x"); // another pod: there is one
    assert.deepEqual(await next(), ["b true", "c true"]);
    shortages.accepted(small, "x");
    for (const pod of ["d", "e"]) first(pod);
    shortages.passed("d"); // it has been removed
    assert.deepEqual(await next(), ["d true", "e false"]);
    for (const pod of ["d", "e"]) first(pod);
    await clock.advance(60_000);
    assert.deepEqual(await next(), ["d true", "e false"]);
    for (const pod of ["e", "f", "g"]) first(pod);
    abort.abort();
    assert.deepEqual(await next(), ["e true", "f left", "g left"]);
    assert.equal(clock.sleepers, 0);
  });

  it("keeps to the time that the cloud asked for", () => {
    const { shortages, refuse } = start();
    refuse("a", ofSmall, 7000);
    assert.equal(shortages.endsIn([ofSmall]), 7000);
    const other = start();
    other.refuse("a", ofSmall, 0);
    assert.equal(other.shortages.endsIn([ofSmall]), 1000);
  });

  it("takes the launch for the scope where the cloud names another one", () => {
    const { shortages, refuse } = start();
    refuse("a", { zone: "elsewhere" });
    assert.deepEqual(shortages.inForce("a"), [{ instanceType: "small", launchType: "on-demand" }]);
  });

  it("lets the pod that was created first try, and the others when it has succeeded", async () => {
    const { clock, shortages, turns, wait, refuse } = start();
    refuse("x");
    wait("young", 3);
    wait("old", 1);
    wait("middle", 2);
    await clock.advance(30_000);
    assert.deepEqual(turns, ["old"]);
    assert.deepEqual([shortages.inForce("old"), shortages.inForce("new")], [[], [ofSmall]]);
    shortages.accepted(small, "a");
    await setImmediate();
    assert.deepEqual(turns, ["old", "middle", "young"]);
    assert.equal(clock.sleepers, 0);
  });

  it("lets more and more pods follow an accepted launch, until one is refused", async () => {
    const { clock, shortages, turns, wait, refuse } = start();
    refuse("x");
    for (let n = 0; n < 100; n++) wait(`p${n}`, n);
    await clock.advance(30_000);
    assert.deepEqual(turns, ["p0"]);
    shortages.accepted(small, "p0");
    await setImmediate();
    assert.equal(turns.length, 11);
    await clock.advance(2000);
    assert.equal(turns.length, 31);
    refuse("p5");
    await clock.advance(29_000);
    assert.equal(turns.length, 31);
    await clock.advance(1000);
    assert.deepEqual(turns.slice(31), ["p31"]);
    shortages.accepted(small, "p31");
    for (let n = 0; n < 3; n++) await clock.advance(2000);
    assert.deepEqual([turns.length, turns.at(-1), clock.sleepers], [100, "p99", 0]);
  });

  it("wakes no pod that waits again when those before it have left", async () => {
    const { clock, shortages, turns, wait, refuse, abort } = start();
    refuse("x");
    for (let n = 0; n < 20; n++) wait(`p${n}`, n);
    shortages.accepted(small, "y");
    abort.abort();
    await setImmediate();
    assert.equal(clock.sleepers, 0);
    refuse("x");
    const { signal } = new AbortController();
    void shortages
      .untilTurn({ podUid: "z", createdAt: 0, scopes: [ofSmall] }, signal)
      .then(() => turns.push("z"));
    await clock.advance(29_000);
    assert.ok(!turns.includes("z"));
    await clock.advance(1000);
    assert.equal(turns.at(-1), "z");
  });

  it("lets one pod after the other try a quota, and the next one when a machine has ended", async () => {
    const { clock, shortages, turns, wait } = start();
    const placement: Placement = { ...small, launchType: "spot" };
    const scope: ShortScope = { launchType: "spot", isQuota: true };
    const refuse = (podUid: string) => shortages.refused({ podUid, placement, scope });
    refuse("x");
    for (const [createdAt, podUid] of ["a", "b", "c", "d"].entries())
      wait(podUid, createdAt, [scope]);
    shortages.freed();
    await setImmediate();
    assert.deepEqual(turns, ["a"]);
    shortages.accepted(placement, "a");
    await setImmediate();
    assert.deepEqual(turns, ["a", "b"]);
    refuse("b");
    await setImmediate();
    assert.deepEqual([turns, shortages.endsIn([scope])], [["a", "b"], 30_000]);
    // One that tries keeps its turn, however many machines end, and whatever is launched for others.
    for (let ends = 0; ends < 3; ends++) shortages.freed();
    shortages.accepted(placement, "other");
    await setImmediate();
    assert.deepEqual([turns.at(-1), shortages.inForce("c")], ["c", []]);
    refuse("c");
    await clock.advance(0);
    assert.deepEqual(turns, ["a", "b", "c", "d"]);
    shortages.accepted(placement, "d");
    assert.deepEqual(shortages.inForce("new"), []);
  });

  it("lets the next pod try when the first one was given another machine meanwhile", async () => {
    const { shortages, turns, wait } = start();
    const scope: ShortScope = { launchType: "spot", isQuota: true };
    shortages.refused({ podUid: "x", placement: { ...small, launchType: "spot" }, scope });
    for (const [createdAt, podUid] of ["a", "b"].entries()) wait(podUid, createdAt, [scope]);
    shortages.freed();
    shortages.accepted(small, "a");
    await setImmediate();
    assert.deepEqual(turns, ["a", "b"]);
  });

  it("keeps the others waiting when the first has been refused, and goes on without one that is gone", async () => {
    const { clock, turns, wait, refuse } = start();
    refuse("x");
    for (const [age, pod] of ["a", "b", "c"].entries()) wait(pod, age);
    await clock.advance(30_000);
    refuse("a");
    await clock.advance(59_000);
    assert.deepEqual(turns, ["a"]);
    await clock.advance(1000); // pod b gets its turn, and does not use it
    assert.deepEqual(turns, ["a", "b"]);
    await clock.advance(60_000);
    assert.deepEqual(turns, ["a", "b", "c"]);
  });

  it("lets the next pod try when the first has been refused for another shortage and waits", async () => {
    const { clock, shortages, turns, wait, refuse } = start();
    const ofZone = { zone: "z" };
    refuse("x", ofZone);
    for (const [age, pod] of ["a", "b"].entries()) wait(pod, age, [ofZone]);
    await clock.advance(30_000);
    assert.deepEqual(turns, ["a"]);
    refuse("a", small); // the zone may have capacity of other types
    assert.deepEqual(shortages.inForce("a"), [small]);
    wait("a", 0, [small]);
    await clock.advance(0);
    assert.deepEqual([turns, shortages.inForce("b")], [["a", "b"], [small]]);
    refuse("b", ofZone, undefined, { ...small, instanceType: "large" });
    assert.equal(shortages.endsIn([ofZone]), 60_000);
  });

  it("does not pass a turn to and fro between two pods that lack each other's", async () => {
    const { clock, turns, wait, refuse } = start();
    const ofZone = { zone: "z" };
    refuse("x");
    wait("a", 0);
    await clock.advance(1000);
    refuse("x", ofZone);
    wait("b", 1, [ofZone]);
    await clock.advance(30_000);
    assert.deepEqual(turns, ["a", "b"]);
    wait("a", 0, [ofZone]);
    wait("b", 1);
    await clock.advance(58_000);
    assert.deepEqual(turns, ["a", "b"]);
    await clock.advance(1000); // one of them gets the other turn
    assert.deepEqual(turns, ["a", "b", "b"]);
  });

  it("passes the turn of a pod that does not wait for what another one tries", async () => {
    const { clock, turns, wait, refuse } = start();
    const ofZone = { zone: "z" };
    const large = { ...small, instanceType: "large" };
    refuse("x", ofZone);
    refuse("x", large, 300_000, large);
    for (const [age, pod] of ["old", "next"].entries()) wait(pod, age, [ofZone]);
    await clock.advance(1000);
    refuse("x");
    wait("young", 2);
    await clock.advance(30_000);
    assert.deepEqual(turns, ["old", "young"]);
    wait("young", 2, [ofZone]); // keeps its turn for the type
    for (const pod of ["old", "next"]) {
      wait(pod, 0, [large]);
      await clock.advance(0);
    }
    assert.deepEqual(turns, ["old", "young", "next", "young"]);
  });

  it("lets no pod try a machine while there is a shortage of more than that", async () => {
    const { clock, turns, wait, refuse } = start();
    const ofZone = { zone: "z" };
    refuse("x", small);
    wait("a", 0, [small]);
    await clock.advance(29_000);
    refuse("x", ofZone);
    wait("b", 1, [ofZone]);
    await clock.advance(29_000);
    assert.deepEqual(turns, []);
    await clock.advance(1000);
    assert.deepEqual(turns, ["a"]);
  });

  it("lets a pod try a machine when the shortage of more than that ends early", async () => {
    const { clock, shortages, turns, wait, refuse } = start();
    refuse("x", small);
    wait("a", 0, [small]);
    refuse("x", { zone: "z" }, 60_000);
    await clock.advance(31_000);
    assert.deepEqual(turns, []);
    shortages.accepted({ ...small, instanceType: "large" }, "y");
    await clock.advance(0);
    assert.deepEqual(turns, ["a"]);
  });

  it("goes on when the cloud wants to be asked again soon, although the first may try for longer", async () => {
    const { clock, turns, wait, refuse } = start();
    refuse("x");
    for (const [age, pod] of ["a", "b"].entries()) wait(pod, age);
    await clock.advance(30_000);
    refuse("a", ofSmall, 2000);
    await clock.advance(2000);
    assert.deepEqual(turns, ["a", "b"]);
  });

  it("compares no pod that begins or ends to wait with all others", async () => {
    const scopes = Array.from({ length: 10 }, (_, index) => ({ instanceType: `type-${index}` }));
    await assertScales((pods) => {
      const { refuse, wait, abort } = start();
      for (const scope of scopes)
        refuse("x", scope, undefined, { ...small, instanceType: scope.instanceType });
      return async () => {
        for (let pod = 0; pod < pods; pod++) wait(`pod-${pod}`, pod, scopes);
        abort.abort(new Error("enough"));
        await setImmediate();
      };
    }, 3000);
  });

  it("leaves no timer behind when those who wait have left", async () => {
    const { clock, turns, wait, refuse, abort } = start();
    refuse("x");
    wait("a", 1);
    await setImmediate();
    assert.equal(clock.sleepers, 1);
    abort.abort(new Error("enough"));
    await setImmediate();
    assert.deepEqual([turns, clock.sleepers], [["a left"], 0]);
  });

  it("remembers a bounded number, the newest", () => {
    const { shortages, refuse } = start(2);
    for (const launchType of ["on-demand"]) refuse("a", { launchType });
    refuse("a", { zone: "z" });
    refuse("a");
    assert.deepEqual(shortages.inForce("b"), [{ zone: "z" }, ofSmall]);
  });
});

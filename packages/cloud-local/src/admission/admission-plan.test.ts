import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { array, assert as checkProperty, integer, property, record } from "fast-check";
import { verdictFor, verdictsFor, type PendingLaunch, type Room } from "./admission-plan.ts";

const launch = (key: string, memory: number, createdAt: number, cpus = 1): PendingLaunch => ({
  key,
  createdAt,
  arrivedAt: 0,
  needs: { memory, disk: 0, cpus },
});
const room = (memory: number, cpus = 100, starts = 100): Room => ({
  memory,
  disk: 0,
  cpus,
  starts,
});

describe("verdictFor()", () => {
  it("lets every launch start that has room", () => {
    const launches = [launch("a", 3, 1), launch("b", 4, 2)];
    for (const key of ["a", "b"])
      assert.deepEqual(verdictFor(key, launches, room(7)), { kind: "go" });
  });

  it("reserves free resources for the oldest launch, however little a younger one needs", () => {
    const launches = [launch("small", 1, 2), launch("big", 8, 1)];
    assert.deepEqual(verdictFor("big", launches, room(7)), {
      kind: "wait",
      lack: "memory",
      ahead: 0,
      isBehind: false,
    });
    assert.deepEqual(verdictFor("small", launches, room(7)), {
      kind: "wait",
      lack: "memory",
      ahead: 1,
      isBehind: true,
    });
  });

  it("lets a younger launch start if that takes nothing from waiting ones", () => {
    // The older one lacks CPUs, and the younger one needs none.
    const launches = [launch("old", 4, 1, 8), launch("young", 2, 2, 0)];
    assert.equal(verdictFor("old", launches, room(6, 4)).kind, "wait");
    assert.equal(verdictFor("young", launches, room(6, 4)).kind, "go");
  });

  it("starts so many at once, the oldest first", () => {
    const launches = [launch("c", 1, 3), launch("a", 1, 1), launch("b", 1, 2)];
    const verdicts = ["a", "b", "c"].map((key) => verdictFor(key, launches, room(9, 9, 2)).kind);
    assert.deepEqual(verdicts, ["go", "go", "wait"]);
  });

  it("starts launches with the same creation time in the order of their arrival", () => {
    const first = { ...launch("z", 5, 1), arrivedAt: 1 };
    const second = { ...launch("a", 5, 1), arrivedAt: 2 };
    assert.equal(verdictFor("z", [second, first], room(5)).kind, "go");
    assert.equal(verdictFor("a", [second, first], room(5)).kind, "wait");
  });

  it("never gives more than there is, and never harms an older one", () => {
    const some = record({ memory: integer({ min: 1, max: 9 }), cpus: integer({ min: 1, max: 4 }) });
    checkProperty(
      property(
        array(some, { maxLength: 12 }),
        some,
        integer({ min: 0, max: 6 }),
        (all, free, starts) => {
          const here = room(free.memory * 3, free.cpus * 3, starts);
          const launches = all.map(({ memory, cpus }, at) => launch(`${at}`, memory, at, cpus));
          const going = launches.filter(({ key }) => verdictFor(key, launches, here).kind === "go");
          const sum = (kind: "memory" | "cpus"): number =>
            going.reduce((total, { needs }) => total + needs[kind], 0);
          assert.ok(sum("memory") <= here.memory && sum("cpus") <= here.cpus);
          assert.ok(going.length <= starts);
          for (const each of launches) {
            const older = launches.filter(({ createdAt }) => createdAt <= each.createdAt);
            const alone = verdictFor(each.key, older, here).kind;
            assert.equal(
              verdictFor(each.key, launches, here).kind,
              alone,
              "the young do not matter",
            );
          }
        },
      ),
    );
  });
});

describe("verdictsFor()", () => {
  it("looks at each launch a few times, however many there are", () => {
    let looks = 0;
    const launches = Array.from({ length: 400 }, (_, index): PendingLaunch => {
      const plain = launch(String(index), 2, index);
      return {
        ...plain,
        get needs() {
          looks++;
          return plain.needs;
        },
      };
    });
    const verdicts = verdictsFor(launches, room(3));
    assert.equal(verdicts.size, 400);
    assert.deepEqual(verdicts.get("399"), {
      kind: "wait",
      lack: "memory",
      ahead: 398,
      isBehind: true,
    });
    assert.ok(looks <= 400 * 10, `${looks} looks`);
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseReference } from "@kip/oci-image";
import {
  areAllDigestsKnown,
  noImages as none,
  planCache,
  reduceCache,
  type CacheChange,
  type CacheState,
} from "./cache-state.ts";
import type { WantedImage } from "./wanted-images.ts";

/** Applies changes at these times, milliseconds. */
function after(...changes: readonly (readonly [number, CacheChange])[]): CacheState {
  return changes.reduce(
    (state, [monotonicMs, change]) => reduceCache(state, change, { monotonicMs, wallMs: 0 }),
    none,
  );
}

const wanted = (secrets: Readonly<Record<string, readonly string[]>>): CacheChange => ({
  kind: "wanted",
  images: new Map(
    Object.entries(secrets).map(([name, pullSecrets]): [string, WantedImage] => [
      name,
      { reference: parseReference(name), namespaces: ["team"], pullSecrets },
    ]),
  ),
});
/** Images, with the namespaces that name them. */
const named = (all: Readonly<Record<string, readonly string[]>>): CacheChange => ({
  kind: "wanted",
  images: new Map(
    Object.entries(all).map(([name, namespaces]): [string, WantedImage] => [
      name,
      { reference: parseReference(name), namespaces, pullSecrets: [] },
    ]),
  ),
});
const started = (name: string): CacheChange => ({ kind: "started", name });
const filled = (name: string, nextMs: number): CacheChange => ({
  kind: "filled",
  name,
  digest: `sha256:${"a".repeat(64)}`,
  nextMs,
});
const failed = (name: string, problem: string, nextMs: number): CacheChange => ({
  kind: "failed",
  name,
  problem,
  nextMs,
});

describe("planCache()", () => {
  const planned = (state: CacheState, nowMs: number, parallel = 2) => {
    const { steps, wakeAtMs } = planCache(parallel)(state, nowMs);
    return { names: steps.map(({ name }) => name), wakeAtMs };
  };

  it("fills so many images at once, those first that are due the longest", () => {
    const state = after([0, wanted({ a: [] })], [5, wanted({ c: [], b: [], a: [] })]);
    assert.deepEqual(planned(state, 5), { names: ["a", "c"], wakeAtMs: undefined });
    assert.deepEqual(planned(state, 5, 3).names, ["a", "c", "b"]);
    assert.deepEqual(planned(none, 5), { names: [], wakeAtMs: undefined });
  });

  it("lets namespaces take turns, and goes on with what it has begun", () => {
    const crowd = Object.fromEntries(
      Array.from({ length: 1000 }, (_, index) => [`crowd-${index}`, ["crowd"]]),
    );
    let state = after([0, named(crowd)]);
    const apply = (monotonicMs: number, change: CacheChange): void => {
      state = reduceCache(state, change, { monotonicMs, wallMs: 0 });
    };
    for (const name of planned(state, 0).names) apply(0, started(name));
    // Others arrive when the large namespace has both places.
    apply(
      1,
      named({ ...crowd, a1: ["a"], a2: ["a"], b: ["b"], both: ["b", "crowd"], listed: [""] }),
    );
    assert.deepEqual(planned(state, 1).names, ["crowd-0", "crowd-1"]);
    const order: string[] = [];
    for (let now = 2; order.length < 10; now++) {
      const [first = ""] = planned(state, now).names;
      apply(now, filled(first, 1_000_000));
      for (const name of planned(state, now).names) {
        if (state.images.get(name)?.isRunning !== true) order.push(name);
        apply(now, started(name));
      }
    }
    assert.deepEqual(order, [
      "a1",
      "b",
      "listed",
      "crowd-2",
      "a2",
      "both",
      "crowd-3",
      "crowd-4",
      "crowd-5",
      "crowd-6",
    ]);
  });

  it("gives a namespace whose images take long no second place while others wait", () => {
    const slow = { slow1: ["slow"], slow2: ["slow"], slow3: ["slow"] };
    const others = { a1: ["a"], a2: ["a"], a3: ["a"], b1: ["b"], b2: ["b"] };
    let state = after(
      [0, named(slow)],
      [0, started("slow1")],
      [0, started("slow2")],
      [1, named({ ...slow, ...others })],
      [2, filled("slow1", 1_000_000)],
    );
    const order: string[] = [];
    for (let now = 3; order.length < 6; now++) {
      const [slowest, next = ""] = planned(state, now).names;
      assert.equal(slowest, "slow2");
      order.push(next);
      state = [started(next), filled(next, 1_000_000)].reduce(
        (before, change) => reduceCache(before, change, { monotonicMs: now, wallMs: 0 }),
        state,
      );
    }
    assert.deepEqual(order, ["a1", "b1", "a2", "b2", "a3", "slow3"]);
  });

  it("gives a namespace no turn before its time for coming again", () => {
    const [x, y] = [{ x: ["x"] }, { y1: ["y"], y2: ["y"] }];
    const state = after(
      [0, named(x)],
      [1, started("x")],
      [2, named(y)],
      [3, started("y1")],
      [4, filled("y1", 1000)],
      [5, named({ ...x, ...y })],
    );
    assert.deepEqual(planned(state, 5).names, ["y2", "x"]);
  });

  it("asks again after the time to refresh, and after a failure's pause, of which other images know nothing", () => {
    const all = wanted({ a: [], b: [], c: [] });
    const state = after(
      [0, all],
      [10, filled("a", 1000)],
      [20, failed("b", "REGISTRY_UNREACHABLE", 100)],
    );
    assert.deepEqual(planned(state, 20, 1), { names: ["c"], wakeAtMs: 120 });
    assert.deepEqual(planned(state, 120, 2).names, ["c", "b"]);
    assert.deepEqual(planned(state, 1010, 3).names, ["c", "b", "a"]);
  });
});

describe("reduceCache()", () => {
  it("keeps what is known of images that are still wanted, and drops the others", () => {
    const before = after([0, wanted({ a: [], b: [] })], [10, filled("a", 1000)]);
    const state = reduceCache(before, wanted({ a: [] }), { monotonicMs: 50, wallMs: 0 });
    assert.deepEqual([...state.images.keys()], ["a"]);
    assert.equal(state.images.get("a"), before.images.get("a"));
    const same = reduceCache(state, wanted({ a: [] }), { monotonicMs: 60, wallMs: 0 });
    assert.equal(same, state, "nothing has changed");
    assert.equal(reduceCache(state, filled("b", 1), { monotonicMs: 60, wallMs: 0 }), state);
  });

  it("asks at once for an image that could not be had when there is another secret, or other settings", () => {
    const refused = failed("a", "REGISTRY_UNAUTHORIZED", 1000);
    const secret = after([0, wanted({ a: ["x/y"] })], [10, refused], [20, wanted({ a: ["x/z"] })]);
    assert.equal(secret.images.get("a")?.dueAtMs, 20);
    const settings = after(
      [0, wanted({ a: [] })],
      [10, refused],
      [20, { kind: "settingsChanged" }],
    );
    assert.equal(settings.images.get("a")?.dueAtMs, 20);
    const fine = after(
      [0, wanted({ a: ["x/y"] })],
      [10, filled("a", 1000)],
      [20, wanted({ a: ["x/z"] })],
      [20, { kind: "settingsChanged" }],
    );
    assert.equal(fine.images.get("a")?.dueAtMs, 1010);
  });
});

describe("areAllDigestsKnown()", () => {
  it("waits for images that may be in the cache although they cannot be asked for", () => {
    const start = [0, wanted({ a: [] })] as const;
    assert.equal(areAllDigestsKnown(after(start)), false);
    assert.equal(
      areAllDigestsKnown(after(start, [1, failed("a", "REGISTRY_UNREACHABLE", 1)])),
      false,
    );
    assert.equal(
      areAllDigestsKnown(after(start, [1, failed("a", "IMAGE_STORE_FAILED", 1)])),
      false,
    );
    assert.equal(areAllDigestsKnown(after(start, [1, failed("a", "IMAGE_NOT_FOUND", 1)])), true);
    const known = after(start, [1, filled("a", 1)], [2, failed("a", "REGISTRY_UNREACHABLE", 1)]);
    assert.equal(areAllDigestsKnown(known), true);
  });

  it("is true once a registry has said what each name means, though blobs are missing", () => {
    const digest = `sha256:${"b".repeat(64)}`;
    const resolved: CacheChange = { kind: "resolved", name: "a", digest };
    const state = after([0, wanted({ a: [] })], [1, resolved]);
    assert.equal(areAllDigestsKnown(state), true);
    const image = state.images.get("a");
    assert.deepEqual([image?.dueAtMs, image?.isFilled], [0, false], "it goes on");
    const moved = after([0, wanted({ a: [] })], [1, filled("a", 1)], [2, resolved]);
    assert.equal(moved.images.get("a")?.isFilled, false);
  });
});

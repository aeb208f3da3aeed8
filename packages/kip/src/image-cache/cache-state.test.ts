import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseReference } from "@kip/oci-image";
import {
  knowsAll,
  planCache,
  reduceCache,
  type CacheChange,
  type CacheState,
} from "./cache-state.ts";
import type { WantedImage } from "./wanted-images.ts";

const none: CacheState = { images: new Map() };

/** Changes with the times at which they happen, milliseconds. */
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
      { reference: parseReference(name), pullSecrets },
    ]),
  ),
});
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

describe("knowsAll()", () => {
  it("waits for images that may be in the cache although they cannot be asked for", () => {
    const start = [0, wanted({ a: [] })] as const;
    assert.equal(knowsAll(after(start)), false);
    assert.equal(knowsAll(after(start, [1, failed("a", "REGISTRY_UNREACHABLE", 1)])), false);
    assert.equal(knowsAll(after(start, [1, failed("a", "IMAGE_STORE_FAILED", 1)])), false);
    assert.equal(knowsAll(after(start, [1, failed("a", "IMAGE_NOT_FOUND", 1)])), true);
    const known = after(start, [1, filled("a", 1)], [2, failed("a", "REGISTRY_UNREACHABLE", 1)]);
    assert.equal(knowsAll(known), true);
  });

  it("is true once a registry has said what each name means, though blobs are missing", () => {
    const digest = `sha256:${"b".repeat(64)}`;
    const resolved: CacheChange = { kind: "resolved", name: "a", digest };
    const state = after([0, wanted({ a: [] })], [1, resolved]);
    assert.equal(knowsAll(state), true);
    const image = state.images.get("a");
    assert.deepEqual([image?.dueAtMs, image?.isFilled], [0, false], "it goes on");
    const moved = after([0, wanted({ a: [] })], [1, filled("a", 1)], [2, resolved]);
    assert.equal(moved.images.get("a")?.isFilled, false);
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isDeepStrictEqual } from "node:util";
import * as fc from "fast-check";
import { shareUnchanged } from "./share-unchanged.ts";

const state = () => ({
  metadata: { name: "a", resourceVersion: "1", labels: { app: "web" }, annotations: { n: "1" } },
  spec: { containers: [{ name: "main", ports: [1, 2] }] },
  status: { phase: "Pending", conditions: [] },
});

describe("shareUnchanged()", () => {
  it("takes over what is equal, in the metadata too, and leaves the rest", () => {
    const before = state();
    const after = state();
    after.metadata.resourceVersion = "2";
    after.metadata.annotations.n = "2";
    after.status.phase = "Running";
    const expected = structuredClone(after);
    shareUnchanged(before, after);
    assert.deepEqual(after, expected);
    assert.equal(after.spec, before.spec);
    assert.equal(after.metadata.labels, before.metadata.labels);
    assert.notEqual(after.metadata.annotations, before.metadata.annotations);
    assert.notEqual(after.status, before.status);
    assert.deepEqual(before, state());
  });

  it("never changes what an object says, and shares exactly what is equal", () => {
    const json = fc.jsonValue({ maxDepth: 3 });
    const part = fc.oneof(json, fc.constantFrom([], {}, [{}], { a: null }, ["x"], { 0: "x" }));
    fc.assert(
      fc.property(part, part, (one, other) => {
        const before = JSON.parse(JSON.stringify({ part: one })) as { part: unknown };
        const after = JSON.parse(JSON.stringify({ part: other })) as { part: unknown };
        const isObject = typeof after.part === "object" && after.part !== null;
        const isSame = isObject && isDeepStrictEqual(before.part, after.part);
        shareUnchanged(before, after);
        assert.equal(JSON.stringify(after.part), JSON.stringify(JSON.parse(JSON.stringify(other))));
        assert.equal(isObject && before.part === after.part, isSame);
      }),
    );
  });
});

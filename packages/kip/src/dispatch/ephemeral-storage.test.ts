import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { podWith } from "@kip/k8s-types/testing";
import { diskBytes, ephemeralStorage, podStorageLimit } from "./ephemeral-storage.ts";

const GiB = 2 ** 30;

function limited(...limits: readonly (string | undefined)[]) {
  return limits.map((limit, index) => ({
    name: `c${index}`,
    resources: { limits: limit === undefined ? {} : { "ephemeral-storage": limit } },
  }));
}

describe("podStorageLimit()", () => {
  const of = (spec: object) => podStorageLimit(podWith({ spec: { containers: [], ...spec } }));

  it("sums the limits of containers, those without one left out, and adds the overhead", () => {
    assert.equal(of({ containers: limited(undefined) }), undefined);
    const one = { bytes: 1.5 * GiB, text: "1536Mi" };
    assert.deepEqual(of({ containers: limited("1536Mi", undefined) }), one);
    const overhead = { "ephemeral-storage": "512Mi" };
    const containers = limited("1Gi", "500M");
    assert.deepEqual(of({ containers, overhead }), {
      bytes: 1.5 * GiB + 5e8,
      text: String(1.5 * GiB + 5e8),
    });
    assert.deepEqual(of({ containers: limited("500M", "1500M") }), { bytes: 2e9, text: "2G" });
  });

  it("counts init containers with the largest of them", () => {
    const spec = { containers: limited("1Gi"), initContainers: limited("3Gi", "2Gi") };
    assert.deepEqual(of(spec), { bytes: 3 * GiB, text: "3Gi" });
  });
});

describe("ephemeralStorage()", () => {
  it("passes limit and request on with the words of the API, as far as they are there", () => {
    const resources = { limits: { "ephemeral-storage": "2Gi" }, requests: { cpu: "1" } };
    assert.deepEqual(ephemeralStorage(resources), { limit: { bytes: 2 * GiB, text: "2Gi" } });
    assert.equal(ephemeralStorage({ limits: { memory: "1Gi" } }), undefined);
    assert.equal(ephemeralStorage(), undefined);
  });

  it("takes a size beyond all numbers for the largest", () => {
    assert.equal(diskBytes("8E"), Number.MAX_SAFE_INTEGER);
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { podWith } from "@kip/k8s-types/testing";
import { isCritical, isNodeCritical } from "./pod-priority.ts";

describe("isCritical()", () => {
  it("is so from the priority of the system's own pods on", () => {
    const of = (priority: number) => isCritical(podWith({ spec: { containers: [], priority } }));
    assert.deepEqual([of(0), of(1_999_999_999), of(2_000_000_000)], [false, false, true]);
  });
});

describe("isNodeCritical()", () => {
  it("takes the class and the priority of it together", () => {
    const of = (priorityClassName: string, priority: number) =>
      isNodeCritical(podWith({ spec: { containers: [], priority, priorityClassName } }));
    assert.equal(of("system-node-critical", 2_000_001_000), true);
    assert.equal(of("system-node-critical", 0), false);
    assert.equal(of("system-cluster-critical", 2_000_000_000), false);
  });
});

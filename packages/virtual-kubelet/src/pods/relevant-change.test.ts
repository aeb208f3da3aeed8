import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Pod } from "@kip/k8s-types";
import { podWith } from "@kip/k8s-types/testing";
import { isRelevantChange } from "./relevant-change.ts";

describe("isRelevantChange()", () => {
  const pod = podWith({
    metadata: { name: "web", labels: { a: "1" }, annotations: {} },
    spec: { containers: [{ name: "main", image: "x:1" }] },
    status: { phase: "Pending" },
  });
  const changed = (change: Partial<Pod>): boolean => isRelevantChange(pod, { ...pod, ...change });

  it("is false for equal pods and for a change of status alone (P1, P3, C2)", () => {
    assert.equal(changed({}), false);
    assert.equal(changed({ status: { phase: "Running" } }), false);
    assert.equal(changed({ metadata: { ...pod.metadata, resourceVersion: "9" } }), false);
  });

  it("is true for changes of image, labels, annotations and deadlines (P1, P2, L8)", () => {
    assert.equal(changed({ spec: { containers: [{ name: "main", image: "x:2" }] } }), true);
    assert.equal(changed({ metadata: { ...pod.metadata, labels: {} } }), true);
    assert.equal(changed({ metadata: { ...pod.metadata, annotations: { n: "1" } } }), true);
    const spec = { ...pod.spec, activeDeadlineSeconds: 5 };
    assert.equal(changed({ spec }), true);
  });

  it("is false for annotations that the provider writes itself", () => {
    const after = { ...pod, metadata: { ...pod.metadata, annotations: { mine: "1" } } };
    assert.equal(isRelevantChange(pod, after), true);
    assert.equal(isRelevantChange(pod, after, new Set(["mine"])), false);
  });

  it("is true when a readiness gate's condition changes", () => {
    const gated = { ...pod, spec: { containers: [], readinessGates: [{ conditionType: "lb" }] } };
    const after = { ...gated, status: { conditions: [{ type: "lb", status: "True" }] } };
    assert.equal(isRelevantChange(gated, after), true);
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { DesiredPod } from "@kip/agent-api";
import { container, desiredPod } from "../../test/desired-pod.ts";
import { allocate } from "./allocation.ts";
import { oomScoreAdj } from "./oom-score.ts";

/** Scores of the containers by name, on a machine of 1000 bytes. */
function scores(pod: DesiredPod): Record<string, number> {
  const { containers } = allocate(pod, undefined);
  const all = [...pod.initContainers, ...pod.containers];
  return Object.fromEntries(
    all.map((one) => [one.name, oomScoreAdj(pod, one, { containers, memoryBytes: 1000 })]),
  );
}
const asking = (name: string, memoryBytesRequest: number, restartPolicy?: string) =>
  container(name, { memoryBytesRequest, ...(restartPolicy !== undefined && { restartPolicy }) });

describe("oomScoreAdj()", () => {
  it("spares guaranteed and node-critical pods, and takes those first that ask for nothing", () => {
    assert.deepEqual(scores(desiredPod({ qosClass: "Guaranteed" })), { web: -997 });
    assert.deepEqual(scores(desiredPod({ isNodeCritical: true })), { web: -997 });
    assert.deepEqual(scores(desiredPod({ qosClass: "BestEffort" })), { web: 1000 });
  });

  it("follows from the part of the machine that a container asks for", () => {
    const containers = [asking("none", 0), asking("tenth", 100), asking("all", 1000)];
    assert.deepEqual(scores(desiredPod({ containers })), { none: 999, tenth: 900, all: 3 });
  });

  it("takes a sidecar no earlier than the containers", () => {
    const pod = desiredPod({
      initContainers: [asking("sidecar", 10, "Always"), asking("once", 10)],
      containers: [asking("a", 300), asking("b", 200)],
    });
    assert.deepEqual(scores(pod), { sidecar: 800, once: 990, a: 700, b: 800 });
  });

  it("shares out what the pod asks for beyond its containers", () => {
    const containers = [asking("a", 100), asking("b", 0)];
    const pod = desiredPod({ containers, resources: { memoryBytesRequest: 300 } });
    assert.deepEqual(scores(pod), { a: 800, b: 900 });
  });
});

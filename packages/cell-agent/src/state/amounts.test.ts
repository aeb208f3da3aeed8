import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { DesiredPod } from "@kip/agent-api";
import { container, desiredPod } from "../../test/desired-pod.ts";
import { allocate } from "./allocation.ts";
import { containerLimits, podLimits, podRequest } from "./amounts.ts";

const full = { cpuMilliLimit: 500, cpuMilliRequest: 100, memoryBytesLimit: 64 };
const sidecar = { restartPolicy: "Always" };

function limitsOf(pod: DesiredPod) {
  return podLimits(pod, allocate(pod, undefined).containers);
}

describe("podLimits()", () => {
  it("is the sum of the containers, with the pod's overhead, when each has the limit", () => {
    const pod = desiredPod({
      initContainers: [container("first", { ...full, ...sidecar }), container("once", full)],
      containers: [container("a", full), container("b", full)],
      overhead: { cpuMilli: 10, memoryBytes: 1 },
    });
    assert.deepEqual(limitsOf(pod), {
      cpuMilliRequest: 310,
      cpuMilliLimit: 1510,
      memoryBytesLimit: 193,
    });
  });

  it("has no limit that one of the containers lacks, and the pod's own in place of the sum", () => {
    const { memoryBytesLimit: _none, ...cpuAlone } = full;
    const pod = desiredPod({ containers: [container("a", full), container("b", cpuAlone)] });
    assert.deepEqual(limitsOf(pod), { cpuMilliRequest: 200, cpuMilliLimit: 1000 });
    const resources = { memoryBytesLimit: 100, cpuMilliLimit: 700, cpuMilliRequest: 300 };
    assert.deepEqual(limitsOf({ ...pod, resources }), {
      cpuMilliRequest: 300,
      cpuMilliLimit: 700,
      memoryBytesLimit: 100,
    });
  });

  it("counts an init container with the largest, and beside the sidecars before it", () => {
    const large = { ...full, memoryBytesLimit: 500 };
    const pod = desiredPod({
      initContainers: [container("s", { ...full, ...sidecar }), container("once", large)],
      containers: [container("a", full)],
    });
    assert.equal(limitsOf(pod).memoryBytesLimit, 564);
    // The sidecar's limit also counts for all containers that start after it.
    const unlimited = { ...pod, initContainers: [...pod.initContainers, container("none")] };
    assert.equal(limitsOf(unlimited).memoryBytesLimit, 564);
  });

  it("leaves a pod that asks for nothing the least weight", () => {
    assert.deepEqual(limitsOf(desiredPod({ qosClass: "BestEffort" })), { cpuMilliRequest: 0 });
  });
});

describe("podRequest()", () => {
  it("is the pod's own for what the pod asks for, and that of the containers for the rest", () => {
    const amounts = { cpuMilliRequest: 100, memoryBytesRequest: 50 };
    const pod = desiredPod({
      containers: [container("a", amounts), container("b", amounts)],
      resources: { cpuMilliRequest: 900 },
    });
    const { containers } = allocate(pod, undefined);
    assert.deepEqual(podRequest(pod, containers), { cpuMilli: 900, memoryBytes: 100 });
  });
});

describe("containerLimits()", () => {
  it("lets a container without limits use what the pod may", () => {
    const resources = { cpuMilliLimit: 700, memoryBytesLimit: 100 };
    const own = { cpuMilliRequest: 5, memoryBytesLimit: 60 };
    assert.deepEqual(containerLimits({ resources }, own), {
      cpuMilliLimit: 700,
      cpuMilliRequest: 5,
      memoryBytesLimit: 60,
    });
    assert.equal(containerLimits({ resources }, {}).cpuMilliRequest, 700);
  });
});

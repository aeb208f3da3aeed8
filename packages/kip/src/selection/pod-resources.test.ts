import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Container } from "@kip/k8s-types";
import { podWith } from "@kip/k8s-types/testing";
import { podResources } from "./pod-resources.ts";

function container(
  limits: Record<string, string>,
  requests: Record<string, string> = {},
  restartPolicy?: string,
): Container {
  return {
    name: "c",
    resources: { limits, requests },
    ...(restartPolicy !== undefined && { restartPolicy }),
  };
}
const Mi = 2 ** 20;

describe("podResources()", () => {
  it("takes limits before requests and sums containers", () => {
    const containers = [
      container({ cpu: "500m" }, { cpu: "100m", memory: "64Mi" }),
      container({ memory: "1Gi" }),
    ];
    assert.deepEqual(podResources(podWith({ spec: { containers } })), {
      cpuMilli: 500,
      memoryBytes: 1088 * Mi,
      gpus: 0,
    });
  });

  it("counts the largest init container, not their sum", () => {
    const initContainers = [container({ memory: "2Gi" }), container({ memory: "1Gi" })];
    const pod = podWith({
      spec: { initContainers, containers: [container({ memory: "512Mi" })] },
    });
    assert.equal(podResources(pod).memoryBytes, 2048 * Mi);
  });

  it("counts sidecars beside the containers", () => {
    const initContainers = [container({ memory: "1Gi" }, {}, "Always")];
    const pod = podWith({
      spec: { initContainers, containers: [container({ memory: "512Mi" })] },
    });
    assert.equal(podResources(pod).memoryBytes, 1536 * Mi);
  });

  it("counts GPUs and the pod's overhead", () => {
    const pod = podWith({
      spec: { containers: [container({ "nvidia.com/gpu": "2" })], overhead: { cpu: "250m" } },
    });
    assert.deepEqual(podResources(pod), { cpuMilli: 250, memoryBytes: 0, gpus: 2 });
  });

  it("counts huge pages of all sizes as memory, beside what is asked for as memory", () => {
    const pages = { "hugepages-2Mi": "64Mi", "hugepages-1Gi": "1Gi" };
    const containers = [
      container({ memory: "128Mi", ...pages }, { memory: "128Mi", ...pages }),
      container({ "hugepages-2Mi": "2Mi" }, { "hugepages-2Mi": "2Mi" }),
    ];
    assert.equal(podResources(podWith({ spec: { containers } })).memoryBytes, 1218 * Mi);
    const whole = { limits: { "hugepages-2Mi": "4Mi" }, requests: { "hugepages-2Mi": "4Mi" } };
    const spec = { containers: [{ name: "c" }], resources: whole };
    assert.equal(podResources(podWith({ spec })).memoryBytes, 4 * Mi);
  });

  it("takes what the pod as a whole may use before what its containers ask for", () => {
    const containers = [container({ memory: "1Gi" }), container({ memory: "1Gi" }, { cpu: "1" })];
    const of = (resources: object) => {
      const spec = { containers, resources };
      return podResources(podWith({ spec }));
    };
    assert.equal(of({ limits: { memory: "1536Mi" } }).memoryBytes, 1536 * Mi);
    assert.equal(of({ requests: { memory: "4Gi" } }).memoryBytes, 4096 * Mi);
    // Containers without limits may use more than the pod's guaranteed resources.
    assert.deepEqual(of({ requests: { memory: "1Gi", cpu: "3" } }), {
      cpuMilli: 3000,
      memoryBytes: 2048 * Mi,
      gpus: 0,
    });
  });

  it("asks for nothing when the pod does", () => {
    assert.deepEqual(podResources(podWith({ spec: { containers: [{ name: "c" }] } })), {
      cpuMilli: 0,
      memoryBytes: 0,
      gpus: 0,
    });
  });
});

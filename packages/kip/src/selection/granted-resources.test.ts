import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { PodStatus } from "@kip/k8s-types";
import { podWith } from "@kip/k8s-types/testing";
import { withGrantedResources } from "./granted-resources.ts";
import { podResources } from "./pod-resources.ts";

describe("withGrantedResources()", () => {
  it("gives containers the size that their status has, and leaves those that have none", () => {
    const of = (memory: string) => ({ limits: { memory } });
    const pod = podWith({
      spec: {
        initContainers: [{ name: "sidecar", restartPolicy: "Always", resources: of("1Ti") }],
        containers: [
          { name: "a", resources: of("9Ti") },
          { name: "b", resources: of("2Gi") },
        ],
      },
    });
    const status = {
      initContainerStatuses: [{ name: "sidecar", resources: of("1Gi") }],
      containerStatuses: [{ name: "a", resources: of("4Gi") }, { name: "b" }],
    } as unknown as PodStatus; // the fields that are read
    assert.equal(podResources(withGrantedResources(pod, status)).memoryBytes, 7 * 2 ** 30);
    assert.deepEqual(withGrantedResources(pod, undefined), pod);
  });
});

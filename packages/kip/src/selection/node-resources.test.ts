import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { InstanceTypeOffer } from "@kip/cloud";
import { nodeResources } from "./node-resources.ts";

const GiB = 2 ** 30;
const offer = (cpuMilli: number, gib: number): InstanceTypeOffer => ({
  name: `${cpuMilli}`,
  cpuMilli,
  memoryBytes: gib * GiB,
  gpus: 0,
  pricePerHour: { "on-demand": 0 },
});

describe("nodeResources()", () => {
  it("offers no more than the largest machine has, so that the pod that is bound fits", () => {
    assert.deepEqual(nodeResources({}, [offer(1000, 1), offer(2000, 4), offer(1500, 8)], 5 * GiB), {
      cpu: "2",
      memory: "4Gi",
      "hugepages-2Mi": "4Gi",
      pods: "20",
      "ephemeral-storage": "100Gi",
    });
    assert.equal(nodeResources({}, [offer(1500, 1)], GiB)["cpu"], "1500m");
  });

  it("offers what the original does where machines are large, or the cloud names none", () => {
    for (const offers of [[offer(96_000, 384)], []]) {
      const { cpu, memory } = nodeResources({}, offers, GiB);
      assert.deepEqual([cpu, memory], ["20", "100Gi"]);
    }
  });

  it("offers a disk for each pod, whatever the form of their number", () => {
    assert.equal(nodeResources({ pods: "1k" }, [], GiB)["ephemeral-storage"], "1000Gi");
  });

  it("keeps what is configured", () => {
    const configured = { cpu: "200", pods: "100", "nvidia.com/gpu": "8" };
    assert.deepEqual(nodeResources(configured, [offer(2000, 4)], GiB), {
      ...configured,
      memory: "4Gi",
      "hugepages-2Mi": "4Gi",
      "ephemeral-storage": "100Gi",
    });
  });
});

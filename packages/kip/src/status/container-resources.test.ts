import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ContainerReport, PodReport } from "@kip/agent-api";
import type { Container, ContainerStatus } from "@kip/k8s-types";
import { containerResources, withPlausibleResources } from "./container-resources.ts";

const Mi = 2 ** 20;
const asked = {
  limits: { cpu: "1", memory: "100M", "example.com/thing": "1" },
  requests: { cpu: "500m", memory: "64Mi" },
};
const granted = {
  cpuMilliLimit: 1000,
  cpuMilliRequest: 500,
  memoryBytesLimit: 1e8,
  memoryBytesRequest: 64 * Mi,
};

describe("containerResources()", () => {
  it("shows the pod's own text where the cell has what the pod asks for", () => {
    assert.deepEqual(containerResources({ allocated: granted, actuated: granted }, asked), {
      allocatedResources: asked.requests,
      resources: asked,
    });
    // Kubernetes takes a status without resources for one from a node that does not support resizing.
    assert.deepEqual(containerResources({ allocated: {} }), { resources: {} });
    assert.deepEqual(containerResources({}, asked), {});
  });

  it("shows what was granted and put in force where the pod asks for something else", () => {
    const actuated = { ...granted, cpuMilliLimit: 1500, memoryBytesLimit: 96 * Mi };
    const allocated = { ...granted, cpuMilliRequest: 250, memoryBytesRequest: 2_000_000 };
    assert.deepEqual(containerResources({ allocated, actuated }, asked), {
      allocatedResources: { cpu: "250m", memory: "2M" },
      resources: { ...asked, limits: { ...asked.limits, cpu: "1500m", memory: "96Mi" } },
    });
  });
});

describe("withPlausibleResources()", () => {
  const machine = { cpuMilli: 2000, memoryBytes: 256 * Mi };
  const container = (name: string, cpuMilliRequest: number): ContainerReport => ({
    name,
    ready: true,
    started: true,
    restartCount: 0,
    image: "",
    allocated: { cpuMilliRequest },
    actuated: { cpuMilliRequest },
  });
  const spec = (name: string, cpu: string, restartPolicy?: string): [string, Container] => [
    name,
    {
      name,
      resources: { requests: { cpu } },
      ...(restartPolicy !== undefined && { restartPolicy }),
    },
  ];
  const specs = new Map([
    spec("once", "1500m"),
    spec("sidecar", "100m", "Always"),
    spec("main", "9"),
  ]);
  const before = {
    name: "main",
    resources: { requests: { cpu: "500m" } },
  } as unknown as ContainerStatus; // the fields that are read
  const published = new Map([["main", before]]);
  const shown = (cpu: readonly [number, number, number], isKnown = true): unknown[] => {
    const [once, sidecar, main] = cpu;
    const report = {
      initContainers: [container("once", once), container("sidecar", sidecar)],
      containers: [container("main", main)],
    } as unknown as PodReport; // the fields that are read
    const context = { machine: isKnown ? machine : undefined, specs, published };
    const { initContainers, containers } = withPlausibleResources(report, context);
    return [...initContainers, ...containers].map(({ allocated }) => allocated?.cpuMilliRequest);
  };

  it("believes a cell that has granted no more than it has, besides what cannot be resized", () => {
    assert.deepEqual(shown([1500, 300, 1700]), [1500, 300, 1700]);
    assert.deepEqual(shown([7000, 300, 1700]), [1500, 300, 1700]);
  });

  it("shows what the pod asks for in place of more than the machine has", () => {
    assert.deepEqual(shown([1500, 300, 1701]), [1500, 100, 9000]);
  });

  it("believes what was published before as long as the machine is not known", () => {
    assert.deepEqual(shown([1500, 300, 500], false), [1500, 100, 500]);
    assert.deepEqual(shown([1500, 100, 501], false), [1500, 100, 9000]);
  });
});

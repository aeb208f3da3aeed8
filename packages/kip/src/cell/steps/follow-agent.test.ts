import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ContainerReport, PodReport } from "@kip/agent-api";
import { silentLogger } from "@kip/base";
import type { PrepareImagesRequest } from "@kip/cloud";
import { podWith } from "@kip/k8s-types/testing";
import { ManualClock } from "@kip/testing";
import { noTracer } from "@kip/virtual-kubelet/telemetry";
import { KnownImages } from "../../dispatch/launch-images.ts";
import { KipMetrics } from "../../metrics/kip-metrics.ts";
import type { Cell } from "../../state/cell.ts";
import { cellStateWith, StateUnderTest } from "../../testing/index.ts";
import { noteReport } from "./follow-agent.ts";
import type { CellTools } from "./step-context.ts";

const machine = { instanceType: "local.small", image: "cell-image", rootDiskBytes: 2 ** 30 };

/** A pod of two containers whose agent reports, and what the cloud is asked to prepare. */
function start() {
  const containers = ["app", "helper"].map((image) => ({ name: image, image }));
  const pod = podWith({ metadata: { uid: "p" }, spec: { containers } });
  const maps = { env: new Map(), lateEnv: new Map(), files: new Map() };
  const object = { metadata: { name: "c" }, spec: machine };
  const cell = new StateUnderTest(
    cellStateWith({
      cell: { object: object as unknown as Cell, status: { phase: "Ready", startMs: { boot: 1 } } }, // all that is looked at
      pod: { resolved: { pod, ...maps, pullSecrets: [] }, object: pod },
    }),
    new ManualClock(),
  );
  const prepared: PrepareImagesRequest[] = [];
  const events: string[] = [];
  const tools = {
    knownImages: new KnownImages(),
    settings: () => ({ registries: [] }),
    driver: { prepareImages: (request: PrepareImagesRequest) => prepared.push(request) },
    statuses: { note: () => {} },
    metrics: new KipMetrics(),
    tracer: noTracer,
    clock: new ManualClock(),
    onEvent: (_podUid: string, reason: string) => events.push(reason),
    logger: silentLogger,
  } as unknown as CellTools; // all that is used
  const report = (change: Partial<PodReport>): void => {
    const document = { podUid: "p", initContainers: [], ephemeralContainers: [], containers: [] };
    cell.apply({ kind: "reported", report: { ...document, ...change } as unknown as PodReport }); // all that is looked at
    noteReport(tools, { state: () => cell.state, change: (one) => cell.apply(one) });
  };
  return { report, prepared, events };
}

function container(image: string, imageId?: string): ContainerReport {
  return { name: image, image, imageId } as unknown as ContainerReport; // all that is looked at
}

function digestOf(image: string, digit: string): string {
  return `docker.io/library/${image}@sha256:${digit.repeat(64)}`;
}

describe("noteReport()", () => {
  it("has the cloud prepare the pod's images once, when the pod has started and all are known", () => {
    const { report, prepared, events } = start();
    const app = container("app", digestOf("app", "a"));
    const helper = container("helper", digestOf("helper", "b"));
    report({ containers: [app, container("helper")] });
    report({ containers: [app, container("helper")], timingsMs: { start: 5 } });
    assert.deepEqual([prepared, events], [[], ["CellStartTimes"]]);
    report({ containers: [app, helper], timingsMs: { start: 5 } });
    report({ containers: [app, helper], timingsMs: { start: 5 } });
    assert.equal(prepared.length, 1);
    const { images, ...asked } = prepared[0] ?? {};
    assert.deepEqual(asked, machine);
    assert.deepEqual(images?.references, [app.imageId, helper.imageId]);
    assert.deepEqual(events, ["CellStartTimes"]);
  });

  it("leaves the processor to the start until the pod has started", () => {
    const { report, prepared } = start();
    const containers = ["app", "helper"].map((image) => container(image, digestOf(image, "a")));
    report({ containers });
    assert.deepEqual(prepared, []);
    report({ containers, timingsMs: { start: 5 } });
    assert.equal(prepared.length, 1);
  });
});

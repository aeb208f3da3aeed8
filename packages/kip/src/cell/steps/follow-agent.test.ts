import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { AgentClient, ContainerReport, PodReport } from "@kip/agent-api";
import { silentLogger } from "@kip/base";
import type { PrepareImagesRequest } from "@kip/cloud";
import { podWith } from "@kip/k8s-types/testing";
import { ManualClock } from "@kip/testing";
import { noTracer } from "@kip/virtual-kubelet/telemetry";
import { KnownImages } from "../../dispatch/launch-images.ts";
import { KipMetrics } from "../../metrics/kip-metrics.ts";
import type { Cell, CellStatus } from "../../state/cell.ts";
import { cellStateWith, StateUnderTest } from "../../testing/index.ts";
import { followAgent, noteReport } from "./follow-agent.ts";
import type { CellTools } from "./step-context.ts";

const machine = { instanceType: "local.small", image: "cell-image", rootDiskBytes: 2 ** 30 };

/** A pod with two containers whose agent reports, and the images that the cloud is asked to prepare. */
function start() {
  const containers = ["app", "helper"].map((image) => ({ name: image, image }));
  const pod = podWith({ metadata: { uid: "p" }, spec: { containers } });
  const maps = { env: new Map(), lateEnv: new Map(), files: new Map() };
  const object = { metadata: { name: "c" }, spec: machine };
  const cell = new StateUnderTest(
    cellStateWith({
      cell: { object: object as unknown as Cell, status: { phase: "Ready", startMs: { boot: 1 } } }, // the fields that are read
      pod: { resolved: { pod, ...maps, pullSecrets: [] }, object: pod },
    }),
    new ManualClock(),
  );
  const prepared: PrepareImagesRequest[] = [];
  const noted: CellStatus["startMs"][] = [];
  const tools = {
    knownImages: new KnownImages(),
    settings: () => ({ registries: [] }),
    driver: { prepareImages: (request: PrepareImagesRequest) => prepared.push(request) },
    statuses: { note: (_cell: Cell, { startMs }: CellStatus) => noted.push(startMs) },
    metrics: new KipMetrics(),
    tracer: noTracer,
    clock: new ManualClock(),
    logger: silentLogger,
  } as unknown as CellTools; // the parts that are used
  const report = (change: Partial<PodReport>): void => {
    const document = { podUid: "p", initContainers: [], ephemeralContainers: [], containers: [] };
    cell.apply({ kind: "reported", report: { ...document, ...change } as unknown as PodReport }); // the fields that are read
    noteReport(tools, { state: () => cell.state, change: (one) => cell.apply(one) });
  };
  return { report, prepared, noted };
}

function container(image: string, imageId?: string): ContainerReport {
  return { name: image, image, imageId } as unknown as ContainerReport; // the fields that are read
}

function digestOf(image: string, digit: string): string {
  return `docker.io/library/${image}@sha256:${digit.repeat(64)}`;
}

describe("noteReport()", () => {
  it("has the cloud prepare the pod's images once, when the pod has started and all are known", () => {
    const { report, prepared, noted } = start();
    const started = { boot: 1, pull: 0, unpack: 0, start: 5 };
    const app = container("app", digestOf("app", "a"));
    const helper = container("helper", digestOf("helper", "b"));
    report({ containers: [app, container("helper")] });
    report({ containers: [app, container("helper")], timingsMs: { start: 5 } });
    assert.deepEqual([prepared.length, noted], [0, [started]]);
    report({ containers: [app, helper], timingsMs: { start: 5 } });
    report({ containers: [app, helper], timingsMs: { start: 5 } });
    assert.equal(prepared.length, 1);
    const { images, ...asked } = prepared[0] ?? {};
    assert.deepEqual(asked, machine);
    assert.deepEqual(images?.references, [app.imageId, helper.imageId]);
    assert.deepEqual(noted, [started]);
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

describe("followAgent()", () => {
  it("hostile cell: keeps the events of a report only until they are passed on", async () => {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const closed = Promise.withResolvers<void>();
    const limits: number[] = [];
    const client = {
      closed: closed.promise,
      async *status(_signal: AbortSignal, containers: () => number) {
        limits.push(containers());
        const lists = { initContainers: [], containers: [], ephemeralContainers: [] };
        yield { podUid: "p", phase: "Running", ...lists, events: [{ message: "m".repeat(1e5) }] };
        await closed.promise;
      },
      [Symbol.asyncDispose]: async () => {},
    } as unknown as AgentClient; // the methods that are called
    const identityExpires = new Date(2 ** 41).toISOString();
    const cell = new StateUnderTest(
      cellStateWith({
        agent: { client },
        cell: {
          object: { metadata: { name: "c" } } as Cell,
          status: { phase: "Claimed", identityExpires },
        },
        pod: { object: podWith({ spec: { containers: [{ name: "app" }, { name: "helper" }] } }) },
      }),
      new ManualClock(),
    );
    const tools = { identities: {}, clock: new ManualClock(), logger: silentLogger };
    const seen = Promise.withResolvers<WeakRef<object>>();
    const followed = followAgent(tools as unknown as CellTools, client, {
      state: () => cell.state,
      change: (change) => cell.apply(change),
      onReport: (report) => {
        cell.apply({ kind: "reported", report });
        seen.resolve(new WeakRef(report.events));
      },
      onLost: () => {},
    });
    const events = await seen.promise;
    for (let turn = 0; turn < 5; turn++) await setImmediate();
    collect();
    assert.equal(events.deref(), undefined);
    assert.equal(cell.state.agent.report?.phase, "Running");
    assert.deepEqual(limits, [2]);
    closed.resolve();
    await followed;
  });
});

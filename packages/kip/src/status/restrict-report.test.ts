import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ContainerReport, PodReport } from "@kip/agent-api";
import { podWith } from "@kip/k8s-types/testing";
import { restrictReportToPod } from "./restrict-report.ts";

function container(name: string, restartCount = 0): ContainerReport {
  return { name, image: "i", ready: true, started: true, restartCount };
}

const report: PodReport = {
  podUid: "p",
  generation: 1,
  phase: "Running",
  startTime: "2026-01-01T00:00:00Z",
  initContainers: [container("web")],
  containers: [container("web"), container("side"), container("web", 7), container("miner")],
  ephemeralContainers: [container("debug"), container("../x")],
  events: [],
  timingsMs: {},
};

describe("restrictReportToPod()", () => {
  it("hostile cell: keeps only the pod's containers, each once", () => {
    const spec = { containers: [{ name: "web" }, { name: "side" }] };
    const own = restrictReportToPod(report, podWith({ spec }));
    assert.deepEqual(own.containers, [container("web", 7), container("side")]);
    assert.deepEqual([own.initContainers, own.ephemeralContainers], [[], []]);
  });

  it("leaves the report of a pod that is not known yet", () => {
    assert.equal(restrictReportToPod(report, undefined), report);
  });
});

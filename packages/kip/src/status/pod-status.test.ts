import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { decodePodReport, type PodReport } from "@kip/agent-api";
import type { Instance } from "@kip/cloud";
import type { Pod } from "@kip/k8s-types";
import { newCellMemory, type CellMemory } from "../cell/cell-memory.ts";
import { podStatus } from "./pod-status.ts";

const context = { nodeIp: "192.0.2.1", now: Date.parse("2026-01-01T01:00:00Z") };
const pod = {
  metadata: { name: "web", uid: "p" },
  spec: {
    containers: [{ name: "main", image: "i" }],
    readinessGates: [{ conditionType: "x/gate" }],
  },
  status: {
    phase: "Pending",
    startTime: "2026-01-01T00:00:00Z",
    conditions: [
      { type: "x/gate", status: "True", lastTransitionTime: "2026-01-01T00:00:00Z" },
      { type: "Ready", status: "False", lastTransitionTime: "2026-01-01T00:00:00Z" },
    ],
  },
} as unknown as Pod; // all that is looked at

function memory(change: Partial<CellMemory>): CellMemory {
  return { ...newCellMemory({ namespace: "default", name: "web", uid: "p" }), ...change };
}

function report(phase: PodReport["phase"]): PodReport {
  return {
    podUid: "p",
    generation: 1,
    phase,
    startTime: "2026-01-01T00:30:00Z",
    initContainers: [],
    containers: [
      {
        name: "main",
        running: { startedAt: "now" },
        ready: true,
        started: true,
        restartCount: 0,
        image: "i",
      },
    ],
    ephemeralContainers: [],
    events: [],
    timingsMs: {},
  };
}

describe("podStatus()", () => {
  it("has no conditions of others, but looks at their gates", () => {
    const status = podStatus(memory({ report: report("Running") }), pod, context);
    const types = status?.conditions?.map(({ type }) => type).sort();
    assert.deepEqual(types, [
      "ContainersReady",
      "Initialized",
      "PodReadyToStartContainers",
      "PodScheduled",
      "Ready",
      "kip.elotl.co/CellReady",
    ]);
    assert.equal(status?.conditions?.find(({ type }) => type === "Ready")?.status, "True");
    assert.equal(status?.startTime, "2026-01-01T00:00:00Z");
  });

  it("keeps the times that were told last, not those of the pod's apply", () => {
    const told = [
      { type: "Ready", status: "True" as const, lastTransitionTime: "2026-01-01T00:50:00Z" },
    ];
    const seen = memory({ report: report("Running"), conditions: told });
    const ready = podStatus(seen, pod, context)?.conditions?.find(({ type }) => type === "Ready");
    assert.equal(ready?.lastTransitionTime, "2026-01-01T00:50:00Z");
  });

  it("marks a pod whose cell is taken back, until it has another", () => {
    const disruption = (seen: CellMemory) =>
      podStatus(seen, pod, context)?.conditions?.find(({ type }) => type === "DisruptionTarget");
    const endsAt = "2026-01-01T01:02:00Z";
    const taken = memory({
      report: report("Running"),
      interruption: { instanceId: "i-1", endsAt },
    });
    const told = disruption(taken);
    assert.ok(told);
    assert.equal(told.status, "True");
    assert.match(told.message ?? "", /"i-1".* 2026-01-01T01:02:00Z/);
    const later = disruption(memory({ report: report("Running"), conditions: [told] }));
    assert.equal(later?.status, "False");
    const byScheduler = { ...told, reason: "PreemptionByScheduler" };
    assert.equal(
      disruption(memory({ report: report("Running"), conditions: [byScheduler] })),
      undefined,
    );
  });

  it("CVE-2020-8562, CVE-2022-3294: has the addresses that the cloud told, whatever the agent says", () => {
    const own = { podIp: "10.0.0.7", managementIp: "10.0.0.6" };
    const lie = {
      podIP: "127.0.0.1",
      podIp: "127.0.0.1",
      hostIP: "10.96.0.1",
      managementIp: "::1",
    };
    const told = decodePodReport({ ...report("Running"), ...lie, containers: [] }, "");
    const instance = own as Instance; // all that is looked at
    for (const [hostNetwork, ip] of [
      [false, own.podIp],
      [true, own.managementIp],
    ] as const) {
      const seen = memory({ report: told, instance });
      const status = podStatus(
        seen,
        { ...pod, spec: { ...pod.spec, hostNetwork } } as Pod,
        context,
      );
      assert.deepEqual(
        [status?.podIP, status?.podIPs, status?.hostIP],
        [ip, [{ ip }], context.nodeIp],
      );
    }
  });

  const silent: readonly (readonly [string, Partial<CellMemory>])[] = [
    ["a claimed cell that has not reported since a restart", { status: { phase: "Claimed" } }],
    ["a cell that was being drained", { status: { phase: "Draining" } }],
    ["a finished pod whose cell is forgotten", { isPodFinished: true }],
    ["containers that end because their Cell was deleted", { report: report("Failed") }],
  ];
  for (const [name, change] of silent)
    it(`says nothing of ${name}`, () =>
      assert.equal(podStatus(memory(change), pod, context), undefined));

  it("fails a pod that may not run again", () => {
    const waitingFor = { reason: "CellLost", message: "The machine of this pod is gone" };
    const status = podStatus(memory({ isPodFinished: true, waitingFor }), pod, context);
    assert.deepEqual([status?.phase, status?.reason], ["Failed", "CellLost"]);
  });
});

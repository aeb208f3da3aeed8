import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Cell } from "../state/cell.ts";
import { planCell } from "./cell-plan.ts";
import type { CellObservation } from "./observe-cell.ts";

const cell: Cell = {
  apiVersion: "kip.elotl.co/v1beta1",
  kind: "Cell",
  metadata: { name: "cell-1", uid: "u1" },
  spec: {
    podRef: { namespace: "default", name: "web", uid: "p1" },
    nodeName: "kip",
    controllerID: "c",
    instanceType: "local.small",
    launchType: "on-demand",
    image: "i",
    rootDiskBytes: 1,
    privateIPOnly: false,
    pricePerHour: 0,
    attempt: 0,
    restartCounts: {},
  },
};

const fresh: CellObservation = {
  wanted: { kind: "run" },
  isPodFinished: false,
  isEndRecorded: true,
  isEndInApi: true,
  isLossFinal: false,
  graceSeconds: 30,
  isStopHeld: false,
  cell: undefined,
  isCellDeleted: false,
  instance: "unknown",
  isRefused: false,
  isAgentConnected: false,
  hasContent: true,
  isDispatched: false,
  areProfilesDue: false,
  drainSent: undefined,
  isDrained: false,
  areLogsSaved: false,
  wasClaimed: false,
  isDrainOverdue: false,
  isUnhealthy: false,
};
const running = {
  ...fresh,
  cell,
  instance: "running",
  isAgentConnected: true,
  isDispatched: true,
  wasClaimed: true,
} satisfies CellObservation;
const removing = {
  ...running,
  wanted: { kind: "remove", graceSeconds: 30 },
} satisfies CellObservation;
const finished = {
  ...running,
  isPodFinished: true,
  isDrained: true,
  isEndInApi: false,
} satisfies CellObservation;

describe("planCell()", () => {
  const cases: readonly (readonly [string, CellObservation, string])[] = [
    ["writes the Cell before anything else", fresh, "createCell"],
    ["asks the cloud before it launches", { ...fresh, cell }, "observeInstance"],
    ["launches when there is no instance", { ...fresh, cell, instance: "none" }, "launch"],
    [
      "looks for an instance before it gives up a launch that was refused",
      { ...fresh, cell, isRefused: true },
      "observeInstance",
    ],
    [
      "makes room for another Cell when a launch was refused",
      { ...fresh, cell, instance: "none", isRefused: true },
      "deleteCell",
    ],
    [
      "goes on with an instance that was refused and started all the same",
      { ...fresh, cell, instance: "pending", isRefused: true },
      "awaitRunning",
    ],
    ["waits for a pending instance", { ...fresh, cell, instance: "pending" }, "awaitRunning"],
    ["dials a running instance", { ...fresh, cell, instance: "running" }, "connect"],
    ["hands the pod over", { ...running, isDispatched: false }, "dispatch"],
    [
      "follows a pod that cannot be handed over",
      { ...running, isDispatched: false, hasContent: false },
      "wait",
    ],
    ["makes no Cell for a pod that cannot be handed over", { ...fresh, hasContent: false }, "wait"],
    [
      "looks for profiles that are missing",
      { ...running, areProfilesDue: true },
      "lookForProfiles",
    ],
    ["rests when all is as asked", running, "wait"],
    ["drains a claimed cell before it ends it", removing, "drain"],
    ["waits while the pod stops", { ...removing, drainSent: 30 }, "wait"],
    ["insists when the grace period shrinks", { ...removing, drainSent: 60 }, "drain"],
    ["lets an evicted pod go on", { ...removing, isStopHeld: true }, "wait"],
    [
      "reaches the agent of an evicted pod",
      { ...removing, isStopHeld: true, isAgentConnected: false },
      "connect",
    ],
    [
      "saves the logs of an evicted pod that has ended",
      { ...removing, isStopHeld: true, isDrained: true },
      "saveLogs",
    ],
    [
      "saves logs once all containers ended",
      { ...removing, drainSent: 30, isDrained: true },
      "saveLogs",
    ],
    [
      "ends the instance at last",
      { ...removing, drainSent: 30, isDrained: true, areLogsSaved: true },
      "terminate",
    ],
    [
      "ends an instance whose pod does not stop",
      { ...removing, isDrainOverdue: true },
      "terminate",
    ],
    ["ends an unclaimed instance at once", { ...removing, wasClaimed: false }, "terminate"],
    ["deletes the Cell when the instance is gone", { ...removing, instance: "gone" }, "deleteCell"],
    [
      "deletes a Cell that never had an instance",
      { ...removing, instance: "none", wasClaimed: false },
      "deleteCell",
    ],
    ["is done without Cell", { ...removing, cell: undefined }, "done"],
    [
      "writes how a pod ended before anything that may take that away",
      { ...finished, isEndRecorded: false },
      "recordEnd",
    ],
    [
      "writes how a pod ended although its machine is gone",
      { ...finished, isEndRecorded: false, instance: "gone" },
      "recordEnd",
    ],
    [
      "does not keep the machine of a removed pod whose end cannot be written in time",
      { ...finished, isEndRecorded: false, wanted: removing.wanted, isDrainOverdue: true },
      "terminate",
    ],
    ["saves logs of a finished pod", finished, "saveLogs"],
    ["ends the cell of a finished pod", { ...finished, areLogsSaved: true }, "terminate"],
    [
      "ends the cell of a finished pod whose agent is away once its time is over",
      { ...finished, areLogsSaved: true, isAgentConnected: false },
      "terminate",
    ],
    [
      "keeps the Cell of a finished pod until the API has its end",
      { ...finished, instance: "gone" },
      "awaitEndInApi",
    ],
    [
      "keeps it also if the pod is removed meanwhile",
      { ...finished, instance: "gone", wanted: removing.wanted },
      "awaitEndInApi",
    ],
    [
      "deletes the Cell once the API has the end",
      { ...finished, instance: "gone", isEndInApi: true },
      "deleteCell",
    ],
    [
      "stops what runs of a pod that is finished in the API",
      { ...running, isPodFinished: true },
      "drain",
    ],
    [
      "ends a pod that may not run again when its cell is lost",
      { ...running, instance: "gone", isLossFinal: true },
      "endPod",
    ],
    ["is done with a finished pod", { ...fresh, isPodFinished: true }, "done"],
    [
      "ends a cell whose agent is lost",
      { ...running, isAgentConnected: false, isUnhealthy: true },
      "terminate",
    ],
    ["drains when someone deletes the Cell", { ...running, isCellDeleted: true }, "drain"],
  ];
  for (const [name, seen, kind] of cases) {
    it(name, () => assert.equal(planCell(seen).kind, kind));
  }

  it("uses the own grace period of a pod that is not removed", () => {
    const seen = { ...running, isPodFinished: true, graceSeconds: 7 };
    assert.deepEqual(planCell(seen), { kind: "drain", graceSeconds: 7 });
  });

  it("distinguishes a loss from an end", () => {
    assert.deepEqual(planCell({ ...running, instance: "gone" }), {
      kind: "deleteCell",
      isLost: true,
    });
    assert.deepEqual(planCell({ ...running, instance: "gone", isPodFinished: true }), {
      kind: "deleteCell",
      isLost: false,
    });
  });

  it("never launches for a pod that is not wanted", () => {
    const kinds = new Set<string>();
    for (const instance of ["none", "unknown", "pending", "running", "gone"] as const) {
      for (const isAgentConnected of [true, false]) {
        for (const wasClaimed of [true, false]) {
          kinds.add(planCell({ ...removing, instance, isAgentConnected, wasClaimed }).kind);
        }
      }
    }
    assert.ok(
      !kinds.has("launch") && !kinds.has("createCell") && !kinds.has("dispatch"),
      [...kinds].join(),
    );
  });
});

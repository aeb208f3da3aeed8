import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { AgentError, type AgentClient, type PodReport } from "@kip/agent-api";
import { silentLogger } from "@kip/base";
import type { Pod } from "@kip/k8s-types";
import { ManualClock } from "@kip/testing";
import type { Cell } from "../state/cell.ts";
import { cellStateWith, StateUnderTest } from "../testing/index.ts";
import { observeCell } from "./observe-cell.ts";
import { drain } from "./steps/end-cell.ts";
import type { CellTools } from "./steps/step-context.ts";

const limits = { bootMs: 1_200_000, unreachableLimitMs: 90_000, drainLeewayMs: 15_000 };

/** A pod that is terminal in the API, and has 30 s to stop on its cell. */
function start(deletePod: AgentClient["deletePod"]) {
  const clock = new ManualClock();
  const client = { deletePod } as unknown as AgentClient; // the parts that are used
  const spec = { terminationGracePeriodSeconds: 30, containers: [] };
  const pod = { metadata: { name: "web", uid: "p" }, spec } as unknown as Pod; // the fields that are read
  const object = { metadata: { name: "c", uid: "c" }, spec: { attempt: 0 } } as unknown as Cell; // the fields that are read
  const state = cellStateWith({
    pod: { object: pod },
    cell: { object, status: { phase: "Claimed", startMs: {} } },
    machine: { state: "running" },
    agent: { client },
    end: { isPodFinished: true, isInApi: true },
  });
  const cell = new StateUnderTest(state, clock);
  const tools = { statuses: { note: () => {}, noteTransient: () => {} }, logger: silentLogger };
  return {
    cell,
    clock,
    client,
    drain: async () =>
      await cell.run((context) => drain(tools as unknown as CellTools, context, 30)),
    isOverdue: () => observeCell(cell.state, limits, clock.monotonic()).isDrainOverdue,
  };
}

describe("observeCell(), a restart of kip", () => {
  it("goes on with the end of a cell whose pod was being stopped", () => {
    const seen = (phase: "Claimed" | "Draining"): boolean =>
      observeCell(cellStateWith({ cell: { status: { phase } } }), limits, 0).isCellDeleted;
    assert.deepEqual([seen("Claimed"), seen("Draining")], [false, true]);
  });
});

describe("observeCell(), looks for profiles of system calls", () => {
  const profiles = [{ name: "late.json", error: "no such file" }];
  const seen = (main: object, nowMs: number): boolean => {
    const report = { initContainers: [], containers: [main], ephemeralContainers: [] };
    const agent = {
      missingProfiles: { profiles, lookAt: 30_000 },
      report: report as unknown as PodReport, // the fields that are read
    };
    return observeCell(cellStateWith({ agent }), limits, nowMs).areProfilesDue;
  };

  it("are due now and then while a container waits, and not for a pod that runs", () => {
    assert.equal(seen({ waiting: { reason: "CreateContainerError" } }, 29_999), false);
    assert.equal(seen({ waiting: { reason: "CreateContainerError" } }, 30_000), true);
    assert.equal(seen({ running: {} }, 30_000), false);
    assert.equal(observeCell(cellStateWith({}), limits, 30_000).areProfilesDue, false);
  });
});

describe("observeCell(), an agent that is out of reach", () => {
  const isUnhealthy = (annotations: Readonly<Record<string, string>>, nowMs: number): boolean => {
    const object = { metadata: { annotations }, spec: {} } as unknown as Pod; // the fields that are read
    const cell = { status: { phase: "Claimed" } } as const;
    const agent = { unreachableSince: 0 };
    return observeCell(cellStateWith({ pod: { object }, cell, agent }), limits, nowMs).isUnhealthy;
  };

  it("has the installation's time, or that of the pod's annotation", () => {
    const own = { "pod.elotl.co/healthcheck-healthy-timeout": "5" };
    assert.deepEqual(
      [89_999, 90_000].map((now) => isUnhealthy({}, now)),
      [false, true],
    );
    assert.deepEqual(
      [4999, 5000].map((now) => isUnhealthy(own, now)),
      [false, true],
    );
    const never = { "pod.elotl.co/healthcheck-healthy-timeout": "0" };
    assert.equal(isUnhealthy(never, 1e12), false);
  });
});

describe("observeCell(), the time limit for stopping a pod that is not removed", () => {
  it("goes on when the connection to the agent ends", async () => {
    const { cell, clock, client, drain: stop, isOverdue } = start(async () => {});
    for (let connection = 0; connection < 2; connection++) {
      await stop();
      await clock.advance(20_000);
      assert.equal(isOverdue(), false);
      cell.apply({ kind: "agentLost" });
      cell.apply({ kind: "connected", client });
    }
    await clock.advance(5_000);
    assert.equal(isOverdue(), true);
  });

  it("begins although the agent never answers", async () => {
    const never = Promise.withResolvers<void>();
    const { clock, drain: stop, isOverdue } = start(() => never.promise);
    const stopping = stop();
    await clock.advance(44_000);
    assert.equal(isOverdue(), false);
    await clock.advance(1_000);
    assert.equal(isOverdue(), true);
    never.reject(new AgentError("AGENT_UNREACHABLE", "gone"));
    await assert.rejects(stopping, { code: "AGENT_UNREACHABLE" });
  });
});

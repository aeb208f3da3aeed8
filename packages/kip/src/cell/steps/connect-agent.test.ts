import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { AgentClient, PodReport } from "@kip/agent-api";
import type { Pod } from "@kip/k8s-types";
import { ManualClock } from "@kip/testing";
import { cellStateWith, StateUnderTest, type CellStateParts } from "../../testing/index.ts";
import { hasRunHere } from "./connect-agent.ts";

function podOf(state: object, restartCount = 0): Pod {
  const containerStatuses = [{ name: "main", state, restartCount }];
  return { status: { containerStatuses } } as unknown as Pod; // all that is looked at
}

describe("hasRunHere()", () => {
  const waiting = { waiting: { reason: "ContainerCreating" } };
  const cases: readonly (readonly [string, CellStateParts, boolean])[] = [
    ["a pod that never arrived", { pod: { object: podOf(waiting) } }, false],
    [
      "a pod that waits for its next cell",
      { pod: { object: podOf(waiting, 2) }, containers: { restartCounts: { main: 2 } } },
      false,
    ],
    ["a container that runs", { pod: { object: podOf({ running: {} }) } }, true],
    ["a container that was started again here", { pod: { object: podOf(waiting, 1) } }, true],
    ["a pod that this cell has reported", { agent: { report: {} as PodReport } }, true],
  ];
  for (const [name, change, isRun] of cases)
    it(`is ${isRun} for ${name}`, () => assert.equal(hasRunHere(cellStateWith(change)), isRun));
});

describe("the generation of the pod that an agent has", () => {
  it("keeps the newest", () => {
    const seen = new StateUnderTest(cellStateWith(), new ManualClock());
    const client = {} as AgentClient;
    seen.apply({ kind: "connected", client });
    seen.apply({ kind: "connected", client, generation: 5 });
    seen.apply({ kind: "podHeld", generation: 3 });
    seen.apply({ kind: "connected", client });
    assert.equal(seen.state.agent.generation, 5);
  });
});

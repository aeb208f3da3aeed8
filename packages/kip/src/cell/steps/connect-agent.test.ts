import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { PodReport } from "@kip/agent-api";
import type { Pod } from "@kip/k8s-types";
import { newCellMemory, type CellMemory } from "../../state/cell-memory.ts";
import { hasRunHere, noteGeneration } from "./connect-agent.ts";

function memory(change: Partial<CellMemory>): CellMemory {
  return { ...newCellMemory({ namespace: "default", name: "web", uid: "p" }), ...change };
}

function podOf(state: object, restartCount = 0): Pod {
  const containerStatuses = [{ name: "main", state, restartCount }];
  return { status: { containerStatuses } } as unknown as Pod; // all that is looked at
}

describe("hasRunHere()", () => {
  const waiting = { waiting: { reason: "ContainerCreating" } };
  const cases: readonly (readonly [string, Partial<CellMemory>, boolean])[] = [
    ["a pod that never arrived", { pod: podOf(waiting) }, false],
    [
      "a pod that waits for its next cell",
      { pod: podOf(waiting, 2), restartCounts: { main: 2 } },
      false,
    ],
    ["a container that runs", { pod: podOf({ running: {} }) }, true],
    ["a container that was started again here", { pod: podOf(waiting, 1) }, true],
    ["a pod that this cell has reported", { report: {} as PodReport }, true],
  ];
  for (const [name, change, isRun] of cases)
    it(`is ${isRun} for ${name}`, () => assert.equal(hasRunHere(memory(change)), isRun));
});

describe("noteGeneration()", () => {
  it("keeps the newest", () => {
    const seen = memory({});
    for (const held of [undefined, 5, 3, undefined]) noteGeneration(seen, held);
    assert.equal(seen.agentGeneration, 5);
  });
});

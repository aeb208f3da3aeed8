import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { AgentClient, PodReport } from "@kip/agent-api";
import type { Pod } from "@kip/k8s-types";
import { ManualClock } from "@kip/testing";
import { cellStateWith, StateUnderTest, type CellStateParts } from "../../testing/index.ts";
import type { Instance } from "@kip/cloud";
import type { Cell } from "../../state/cell.ts";
import { connect, hasRunHere } from "./connect-agent.ts";
import type { CellTools } from "./step-context.ts";

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

describe("connect()", () => {
  for (const isPodFinished of [true, false])
    it(`takes a pod that ${isPodFinished ? "has ended" : "never ran"} for ${isPodFinished ? "lost" : "one to send"} when the agent has none`, async () => {
      const seen = new StateUnderTest(
        cellStateWith({
          cell: {
            object: { metadata: { name: "c", uid: "c" }, spec: { podRef: {} } } as Cell,
            status: { phase: "Claimed" },
          },
          machine: { instance: { managementIp: "10.0.0.1" } as Instance },
          end: { isPodFinished },
        }),
        new ManualClock(),
      );
      const client = { info: async () => ({}) } as unknown as AgentClient;
      const tools = {
        clock: new ManualClock(),
        identities: { clientPair: async () => ({ certificate: "", key: "" }) },
        dial: async () => client,
      } as unknown as CellTools; // all that is called
      await seen.run(async (context) => await connect(tools, context));
      assert.equal(seen.state.agent.client, client);
      assert.equal(seen.state.agent.isPodLost, isPodFinished);
    });
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

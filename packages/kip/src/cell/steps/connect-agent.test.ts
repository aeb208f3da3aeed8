import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { AgentClient, PodReport } from "@kip/agent-api";
import type { Pod } from "@kip/k8s-types";
import { ManualClock } from "@kip/testing";
import { cellStateWith, StateUnderTest, type CellStateParts } from "../../testing/index.ts";
import type { Instance } from "@kip/cloud";
import type { Cell, CellStatus } from "../../state/cell.ts";
import { connect, hasRunHere } from "./connect-agent.ts";
import type { CellTools } from "./step-context.ts";

function podOf(state: object, restartCount = 0): Pod {
  const containerStatuses = [{ name: "main", state, restartCount }];
  return { status: { containerStatuses } } as unknown as Pod; // the fields that are read
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
  /** Connects to an agent in this boot of the machine, which has no pod. */
  async function connected(status: CellStatus, isPodFinished = false): Promise<StateUnderTest> {
    const seen = new StateUnderTest(
      cellStateWith({
        cell: {
          object: { metadata: { name: "c", uid: "c" }, spec: { podRef: {} } } as Cell,
          status,
        },
        machine: { instance: { managementIp: "10.0.0.1" } as Instance },
        end: { isPodFinished },
      }),
      new ManualClock(),
    );
    const client = { info: async () => ({ bootId: "this-boot" }) } as unknown as AgentClient;
    const tools = {
      clock: new ManualClock(),
      identities: { clientPair: async () => ({ certificate: "", key: "" }) },
      statuses: { note: () => {}, noteTransient: () => {} },
      dial: async () => client,
    } as unknown as CellTools; // the methods that are called
    await seen.run(async (context) => await connect(tools, context));
    assert.equal(seen.state.agent.client, client);
    return seen;
  }

  const claimed = { phase: "Claimed" } as const;
  const cases: readonly (readonly [string, CellStatus, boolean, boolean])[] = [
    ["has ended", claimed, true, true],
    ["never ran", claimed, false, false],
    ["was not sent since the machine's start", { ...claimed, bootID: "this-boot" }, false, false],
    ["may have run before the machine's start", { ...claimed, bootID: "before" }, false, true],
  ];
  for (const [what, status, isPodFinished, isLost] of cases)
    it(`takes a pod that ${what} for ${isLost ? "lost" : "one to send"} when the agent has none`, async () => {
      const { state } = await connected(status, isPodFinished);
      assert.equal(state.agent.isPodLost, isLost);
    });

  it("notes the boot of the machine before it has a pod", async () => {
    const { state } = await connected({ phase: "Booting", bootID: "before" });
    assert.equal(state.cell.status.bootID, "this-boot");
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

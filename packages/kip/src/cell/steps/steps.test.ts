import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { AgentClient, DesiredPod, PodReport } from "@kip/agent-api";
import { silentLogger } from "@kip/base";
import type { Instance } from "@kip/cloud";
import type { CellActor } from "../cell-actor.ts";
import { newCellMemory, type CellMemory } from "../cell-memory.ts";
import type { Cell, CellStatus } from "../cell.ts";
import { dispatch } from "./dispatch-pod.ts";
import { deleteCell } from "./end-cell.ts";
import type { StepContext } from "./step-context.ts";

const now = Date.parse("2026-01-01T01:00:00Z");
const never = new AbortController().signal;

/** A pod whose cell answers, and what its steps say to the API and to the agent. */
function start(change: Partial<CellMemory> = {}) {
  const pod = {
    metadata: { name: "web", uid: "p" },
    spec: { containers: [], activeDeadlineSeconds: 60 },
    status: { startTime: "2026-01-01T00:59:50Z" },
  };
  const written: CellStatus[] = [];
  const sent: DesiredPod[] = [];
  let failures = 0;
  const agent = { putPod: async (document: DesiredPod) => void sent.push(document) };
  const memory: CellMemory = {
    ...newCellMemory({ namespace: "default", name: "web", uid: "p" }),
    cell: { metadata: { name: "c" }, spec: { attempt: 0 } } as unknown as Cell, // all that is looked at
    resolved: {
      pod,
      env: new Map(),
      lateEnv: new Map(),
      files: new Map(),
      pullSecrets: [],
    },
    agent: agent as unknown as AgentClient, // all that is called
    instance: { podIp: "10.0.0.2" } as Instance, // all that is looked at
    status: { phase: "Ready" },
    ...change,
  };
  const context = {
    options: {
      clock: { now: () => now, monotonic: () => 0 },
      nodeIp: "192.0.2.1",
      registries: [],
      dns: async () => ({
        clusterDns: [],
        clusterDomain: "cluster.local",
        hostNameservers: [],
        hostSearchDomains: [],
      }),
      onEvent: () => {},
      store: { remove: async () => {} },
      logger: silentLogger,
    },
    statuses: {
      write: async (_cell: Cell, status: CellStatus) => {
        if (failures-- > 0) throw new Error("the API does not answer");
        written.push(status);
      },
    },
  } as unknown as StepContext; // all that the steps use
  const failWrites = (count: number): void => void (failures = count);
  return { context, memory, written, sent, failWrites };
}

describe("dispatch()", () => {
  it("gives no agent its pod before the Cell says so, also after an attempt that failed", async () => {
    const { context, memory, written, sent, failWrites } = start();
    failWrites(1);
    await assert.rejects(dispatch(context, memory, never));
    assert.deepEqual([sent.length, memory.status.phase], [0, "Ready"]);
    await dispatch(context, memory, never);
    assert.deepEqual([sent.length, memory.status.phase], [1, "Claimed"]);
    assert.deepEqual(
      written.map(({ phase }) => phase),
      ["Claimed"],
    );
  });

  it("sends a newer document although the clock was set back", async () => {
    const generation = (now + 3_600_000) * 1000;
    const { context, memory, sent } = start({ report: { generation } as PodReport });
    await dispatch(context, memory, never);
    assert.equal(sent[0]?.generation, generation + 1);
  });

  it("says for how long the pod has been active", async () => {
    const { context, memory, sent } = start();
    await dispatch(context, memory, never);
    assert.equal(sent[0]?.activeForMs, 10_000);
  });
});

describe("deleteCell()", () => {
  const status = { phase: "Claimed" } as const;
  const lose = async (context: StepContext, memory: CellMemory): Promise<void> =>
    await deleteCell(context, { memory } as CellActor, true);

  it("counts a lost machine as a restart of all containers", async () => {
    const report = {
      initContainers: [{ name: "side", restartCount: 0 }],
      containers: [{ name: "main", restartCount: 2 }],
    } as unknown as PodReport; // all that is looked at
    const { context, memory } = start({ status, report, restartCounts: { main: 4 } });
    memory.agent = undefined;
    await lose(context, memory);
    assert.deepEqual(memory.restartCounts, { side: 1, main: 7 });
  });

  it("knows of the API what kip has told before it was started again", async () => {
    const { context, memory } = start({ status, restartCounts: { main: 1 } });
    memory.agent = undefined;
    const containerStatuses = [{ name: "main", restartCount: 3 }];
    Object.assign(memory.resolved?.pod ?? {}, { status: { containerStatuses } });
    await lose(context, memory);
    assert.deepEqual(memory.restartCounts, { main: 4 });
  });
});

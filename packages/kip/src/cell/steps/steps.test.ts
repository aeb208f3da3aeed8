import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { AgentClient, DesiredPod, PodReport } from "@kip/agent-api";
import { hasCode, silentLogger } from "@kip/base";
import type { Instance } from "@kip/cloud";
import type { Pod } from "@kip/k8s-types";
import { podWith } from "@kip/k8s-types/testing";
import { newCellMemory, type CellMemory } from "../../state/cell-memory.ts";
import type { Cell, CellStatus } from "../../state/cell.ts";
import { dispatch } from "./dispatch-pod.ts";
import { deleteCell } from "./end-cell.ts";
import type { StepContext, StepActor } from "./step-context.ts";

const now = Date.parse("2026-01-01T01:00:00Z");
const never = new AbortController().signal;

/** A pod whose cell answers, and what its steps say to the API and to the agent. */
function start(change: Partial<CellMemory> = {}, podChange: Partial<Pod> = {}) {
  const pod: Pod = {
    ...podWith({
      metadata: { uid: "p" },
      spec: { activeDeadlineSeconds: 60 },
      status: { startTime: "2026-01-01T00:59:50Z" },
    }),
    ...podChange,
  };
  const written: CellStatus[] = [];
  const sent: DesiredPod[] = [];
  let failures = 0;
  const agent = {
    putPod: async (document: DesiredPod): Promise<number | undefined> => {
      sent.push(document);
      return document.generation;
    },
  };
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
    pod,
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
  return { context, memory, agent, written, sent, failWrites };
}

describe("dispatch()", () => {
  it("writes Claimed before it sends the pod, also after a failed attempt", async () => {
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

  it("sends a newer document to an agent that has a generation and has not reported yet", async () => {
    const held = (now + 3_600_000) * 1000;
    const { context, memory, sent } = start({ agentGeneration: held });
    await dispatch(context, memory, never);
    assert.equal(sent[0]?.generation, held + 1);
  });

  it("sends a pod that the agent ignored again with a newer generation", async () => {
    const { context, memory, agent, sent } = start();
    const held = (now + 3_600_000) * 1000;
    const put = agent.putPod;
    agent.putPod = async (document) => Math.max(held, (await put(document)) ?? 0);
    const isIgnored = (error: unknown): boolean => hasCode(error, "CELL_POD_IGNORED");
    await assert.rejects(dispatch(context, memory, never), isIgnored);
    assert.equal(memory.isDispatched, false);
    await dispatch(context, memory, never);
    assert.deepEqual([memory.isDispatched, sent[1]?.generation], [true, held + 1]);
  });

  it("does not send containers again that have ended on an earlier cell", async () => {
    const names = (list: DesiredPod["ephemeralContainers"]) => list?.map(({ name }) => name);
    const spec = {
      initContainers: [{ name: "init" }],
      containers: [{ name: "done" }, { name: "main" }],
      ephemeralContainers: [{ name: "debug-1" }, { name: "debug-2" }],
    };
    const ended = { done: { exitCode: 0 }, "debug-1": { exitCode: 137 } };
    const { context, memory, sent } = start({ ended }, { spec });
    await dispatch(context, memory, never);
    const [document] = sent;
    assert.deepEqual(names(document?.initContainers), ["init"]);
    assert.deepEqual(names(document?.containers), ["main"]);
    assert.deepEqual(names(document?.ephemeralContainers), ["debug-2"]);
    assert.deepEqual([...memory.sentEphemeral], ["debug-2"]);
  });

  it("sends for how long the pod has been active", async () => {
    const { context, memory, sent } = start();
    await dispatch(context, memory, never);
    assert.equal(sent[0]?.activeForMs, 10_000);
  });
});

describe("deleteCell()", () => {
  const status = { phase: "Claimed" } as const;
  const lose = async (context: StepContext, memory: CellMemory): Promise<void> =>
    await deleteCell(context, { memory } as StepActor, true);
  const spec = {
    restartPolicy: "OnFailure",
    initContainers: [{ name: "side", restartPolicy: "Always" }],
    containers: [{ name: "main" }, { name: "done" }],
  };
  const running = { startedAt: "2026-01-01T00:59:55Z" };

  it("counts a lost machine as a restart of the containers that ran", async () => {
    const report = {
      initContainers: [{ name: "side", running, restartCount: 0 }],
      containers: [
        { name: "main", running, restartCount: 2 },
        { name: "done", waiting: { reason: "ContainerCreating" }, restartCount: 0 },
      ],
      ephemeralContainers: [],
    } as unknown as PodReport; // all that is looked at
    const { context, memory } = start({ status, report, restartCounts: { main: 4 } }, { spec });
    memory.agent = undefined;
    await lose(context, memory);
    assert.deepEqual(memory.restartCounts, { side: 1, main: 7, done: 0 });
  });

  it("takes over the statuses that an earlier process published", async () => {
    const terminated = { exitCode: 0, reason: "Completed" };
    const containerStatuses = [
      { name: "main", restartCount: 3, state: { running } },
      { name: "done", restartCount: 1, state: { terminated } },
    ];
    const ephemeralContainerStatuses = [{ name: "debug", restartCount: 0, state: { running } }];
    const { context, memory } = start(
      { status, restartCounts: { main: 1 }, sentEphemeral: new Set(["unseen"]) },
      { spec, status: { containerStatuses, ephemeralContainerStatuses } } as unknown as Pod,
    );
    memory.agent = undefined;
    await lose(context, memory);
    assert.deepEqual(memory.restartCounts, { side: 0, main: 4, done: 1 });
    const unknown = { exitCode: 137, reason: "ContainerStatusUnknown" };
    assert.deepEqual(memory.ended, { done: terminated, debug: unknown, unseen: unknown });
  });
});

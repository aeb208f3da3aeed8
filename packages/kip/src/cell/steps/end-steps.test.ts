import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { AgentClient, PodReport } from "@kip/agent-api";
import { CodedError, silentLogger } from "@kip/base";
import { K8sError } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import { newCellMemory, type CellMemory } from "../../state/cell-memory.ts";
import { CellStatusWriter } from "../../store/cell-status-writer.ts";
import type { Cell, CellStatus } from "../../state/cell.ts";
import type { PodInApi } from "../../store/pod-in-api.ts";
import { createCell } from "./create-cell.ts";
import { saveLogs } from "./end-cell.ts";
import { awaitEndInApi, endPod, recordEnd } from "./end-pod.ts";
import type { StepContext, StepActor } from "./step-context.ts";

const never = new AbortController().signal;
const running = { running: { startedAt: "2026-01-01T00:00:00Z" } };
const completed = { terminated: { exitCode: 0, reason: "Completed" } };

function podOf(restartPolicy: string, states: Readonly<Record<string, object>>): Pod {
  const containerStatuses = Object.entries(states).map(([name, state]) => ({
    name,
    state,
    restartCount: 1,
  }));
  const containers = Object.keys(states).map((name) => ({ name }));
  return {
    metadata: { name: "web", uid: "p" },
    spec: { restartPolicy, containers },
    status: { phase: "Running", containerStatuses },
  } as unknown as Pod; // all that is looked at
}

/** A pod with a cell that has it, and the outside of its steps. */
function start(pod: Pod, change: Partial<CellMemory> = {}) {
  const memory: CellMemory = {
    ...newCellMemory({ namespace: "default", name: "web", uid: "p" }),
    pod,
    resolved: { pod, env: new Map(), lateEnv: new Map(), files: new Map(), pullSecrets: [] },
    cell: { metadata: { name: "c" }, spec: { attempt: 0 } } as unknown as Cell, // all that is looked at
    status: { phase: "Claimed", startMs: {} },
    ...change,
  };
  const written: CellStatus[] = [];
  const created: object[] = [];
  const refusals: Error[] = [];
  const inApi: PodInApi[] = [];
  const sleeps: number[] = [];
  const saves: (() => Promise<void>)[] = [];
  let time = 0;
  let publications = 0;
  const context = {
    options: {
      clock: {
        now: () => Date.parse("2026-01-01T01:00:00Z"),
        monotonic: () => time,
        sleep: async (ms: number) => {
          time += ms;
          sleeps.push(ms);
        },
      },
      logger: silentLogger,
      onEvent: () => {},
      archive: { save: async () => await saves.shift()?.() },
      chooser: { choose: async () => ({ instanceType: "t", restartCounts: memory.restartCounts }) },
      store: {
        readPod: async () => inApi.shift() ?? "open",
        create: async (spec: object) => {
          created.push(spec);
          return { metadata: { name: "c", uid: "c" }, spec };
        },
      },
    },
    statuses: {
      write: async (_cell: Cell, status: CellStatus) => {
        const refusal = refusals.shift();
        if (refusal) throw refusal;
        written.push(status);
      },
    },
  } as unknown as StepContext; // all that the steps use
  const actor = {
    memory,
    statusChanged: () => void publications++,
    cellSeen: (cell: Cell) => void (memory.cell = cell),
  } as unknown as StepActor; // all that the steps use
  const outside = { written, created, refusals, inApi, sleeps, saves };
  return { context, memory, actor, ...outside, publications: () => publications };
}

describe("recordEnd()", () => {
  const end = { phase: "Succeeded", message: "all of it" } as const;

  it("has written the end into the Cell's status when it returns", async () => {
    const { context, memory, written } = start(podOf("Never", {}), { end });
    await recordEnd(context, memory);
    assert.deepEqual(written, [{ phase: "Claimed", startMs: {}, podEnd: end }]);
    assert.deepEqual([memory.isEndRecorded, memory.status.podEnd], [true, end]);
  });

  it("fails while the API does not answer, and writes only the phase if the rest is refused", async () => {
    const { context, memory, written, refusals } = start(podOf("Never", {}), { end });
    refusals.push(new K8sError("K8S_UNAVAILABLE", "away"), new K8sError("K8S_INVALID", "no"));
    await assert.rejects(recordEnd(context, memory));
    assert.equal(memory.isEndRecorded, false);
    await recordEnd(context, memory);
    assert.deepEqual(written[0]?.podEnd, { phase: "Succeeded" });
  });
});

describe("recordEnd() beside other writes", () => {
  it("has the end in a newer status that takes its place", async () => {
    const end = { phase: "Succeeded" } as const;
    const { context, memory } = start(podOf("Never", {}), { end });
    const written: CellStatus[] = [];
    const gate = Promise.withResolvers<void>();
    const writer = new CellStatusWriter({
      writeStatus: async (_cell, status) => {
        written.push(status);
        await gate.promise;
      },
    });
    const cell = { metadata: { name: "c", uid: "c" } } as unknown as Cell; // all that is looked at
    Object.assign(memory, { cell });
    const first = writer.write(cell, memory.status);
    const recorded = recordEnd(
      { options: context.options, statuses: writer } as unknown as StepContext,
      memory,
    );
    const last = writer.write(cell, { ...memory.status, startMs: { start: 1 } });
    gate.resolve();
    await Promise.all([first, recorded, last]);
    assert.deepEqual(written.at(-1)?.podEnd, end);
  });
});

describe("endPod()", () => {
  it("fails a pod of restartPolicy Never that ran on its lost cell", async () => {
    const { context, memory } = start(podOf("Never", { main: running }));
    await endPod(context, memory);
    const state = memory.end?.containerStatuses?.[0]?.state?.terminated;
    assert.deepEqual([memory.end?.phase, memory.end?.reason], ["Failed", "CellLost"]);
    assert.deepEqual([state?.exitCode, memory.isPodFinished], [137, true]);
  });

  for (const policy of ["Never", "OnFailure"]) {
    it(`reports Succeeded for a pod whose containers had all completed, with restartPolicy ${policy}`, async () => {
      const { context, memory } = start(podOf(policy, { a: completed, b: completed }));
      await endPod(context, memory);
      assert.deepEqual([memory.end?.phase, memory.end?.reason], ["Succeeded", undefined]);
    });
  }
});

describe("awaitEndInApi()", () => {
  it("reads with growing pauses, publishes the status again, and returns when the pod has ended or is gone", async () => {
    for (const last of ["ended", "gone"] as const) {
      const { context, memory, actor, inApi, sleeps, publications } = start(podOf("Never", {}));
      inApi.push("open", "open", "open", last);
      await awaitEndInApi(context, actor, never);
      assert.deepEqual([memory.isEndInApi, publications()], [true, 3]);
      assert.ok((sleeps[0] ?? 0) < (sleeps[2] ?? 0));
    }
  });

  it("does not hold up the removal of a pod whose end is never accepted", async () => {
    const wanted = { kind: "remove", graceSeconds: 0 } as const;
    const { context, memory, actor, sleeps } = start(podOf("Never", {}), { wanted });
    await awaitEndInApi(context, actor, never);
    assert.equal(memory.isEndInApi, true);
    assert.ok(sleeps.length > 3 && sleeps.length < 20, `${sleeps.length} pauses`);
  });
});

describe("createCell()", () => {
  const away = { cell: undefined, status: { phase: "Pending" } } as const;

  it("takes over the status of a pod whose cell was lost while kip was not running", async () => {
    const pod = podOf("OnFailure", { done: completed, main: running });
    const { context, memory, actor, created } = start(pod, away);
    await createCell(context, actor);
    assert.deepEqual(created, [
      {
        instanceType: "t",
        restartCounts: { done: 1, main: 2 },
        ended: { done: completed.terminated },
      },
    ]);
    assert.equal(memory.isPodFinished, false);
  });

  it("creates no cell for a pod whose containers had all completed", async () => {
    const pod = podOf("OnFailure", { done: completed });
    const { context, memory, actor, created } = start(pod, away);
    await createCell(context, actor);
    assert.deepEqual([created, memory.end?.phase], [[], "Succeeded"]);
  });

  it("does not start a pod of restartPolicy Never again", async () => {
    const pod = podOf("Never", { main: running });
    const { context, memory, actor, created } = start(pod, away);
    await createCell(context, actor);
    assert.deepEqual([created, memory.end?.reason], [[], "CellLost"]);
  });
});

describe("saveLogs()", () => {
  const facts = { isPodFinished: true, agent: {} as AgentClient, report: {} as PodReport };

  it("keeps no cell because its logs cannot be written", async () => {
    const { context, memory, saves } = start(podOf("Never", {}), facts);
    for (const error of [
      Object.assign(new Error("no space left"), { code: "ENOSPC" }),
      new CodedError("LOG_ARCHIVE_FAILED", "no place for logs"),
    ]) {
      memory.areLogsSaved = false;
      saves.push(async () => {
        throw error;
      });
      await saveLogs(context, memory, never);
      assert.equal(memory.areLogsSaved, true);
    }
  });

  it("fails when the connection is lost or the plan aborts it, to be repeated", async () => {
    const { context, memory, saves } = start(podOf("Never", {}), facts);
    const abort = new AbortController();
    saves.push(
      async () => {
        throw new CodedError("AGENT_UNREACHABLE", "gone");
      },
      async () => {
        abort.abort();
        abort.signal.throwIfAborted();
      },
    );
    await assert.rejects(saveLogs(context, memory, never));
    await assert.rejects(saveLogs(context, memory, abort.signal));
    assert.deepEqual([memory.areLogsSaved, memory.saveLogsSince], [false, 0]);
  });
});

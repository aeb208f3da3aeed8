import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { AgentError, maxBodyBytes, type AgentClient, type PodReport } from "@kip/agent-api";
import { setImmediate } from "node:timers/promises";
import { CodedError, silentLogger } from "@kip/base";
import { K8sError } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import { DocumentPlaces } from "../../dispatch/document-places.ts";
import { problemOf } from "../../errors.ts";
import { KipMetrics } from "../../metrics/kip-metrics.ts";
import { cellStateWith, StateUnderTest, type CellStateParts } from "../../testing/index.ts";
import { InstanceTypeError } from "@kip/instance-types";
import type { CellRequest } from "../../selection/cell-chooser.ts";
import { CellStatusWriter } from "../../store/cell-status-writer.ts";
import type { Cell, CellStatus } from "../../state/cell.ts";
import type { PodInApi } from "../../store/pod-in-api.ts";
import type { CellContext } from "../cell-step.ts";
import { createCell } from "./create-cell.ts";
import { saveLogs } from "./end-cell.ts";
import { awaitEndInApi, endPod, recordEnd } from "./end-pod.ts";
import type { CellTools } from "./step-context.ts";

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
  } as unknown as Pod; // the fields that are read
}

/** A claimed pod, and the outside of its steps. */
function start(pod: Pod, change: CellStateParts = {}) {
  const object = { metadata: { name: "c" }, spec: { attempt: 0 } } as unknown as Cell; // the fields that are read
  const maps = { env: new Map(), lateEnv: new Map(), files: new Map() };
  const state = cellStateWith({
    ...change,
    pod: { object: pod, resolved: { pod, ...maps, pullSecrets: [] }, ...change.pod },
    cell: { object, status: { phase: "Claimed", startMs: {} }, ...change.cell },
  });
  const written: CellStatus[] = [];
  const created: object[] = [];
  const refusals: Error[] = [];
  const inApi: PodInApi[] = [];
  const sleeps: number[] = [];
  const saves: (() => Promise<void>)[] = [];
  let time = 0;
  const clock = {
    now: () => Date.parse("2026-01-01T01:00:00Z"),
    monotonic: () => time,
    sleep: async (ms: number) => {
      time += ms;
      sleeps.push(ms);
    },
  };
  const cell = new StateUnderTest(state, clock);
  const tools = {
    clock,
    logger: silentLogger,
    onEvent: () => {},
    metrics: new KipMetrics(),
    archive: { save: async () => await saves.shift()?.() },
    driver: {},
    shortages: { inForce: () => [] },
    chooser: {
      choose: async ({ restartCounts }: CellRequest) => ({ instanceType: "t", restartCounts }),
    },
    store: {
      readPod: async () => inApi.shift() ?? "open",
      create: async (spec: object) => {
        created.push(spec);
        return { metadata: { name: "c", uid: "c" }, spec };
      },
    },
    statuses: {
      note: (_cell: Cell, status: CellStatus) => void written.push(status),
      forget: () => {},
      write: async (_cell: Cell, status: CellStatus) => {
        const refusal = refusals.shift();
        if (refusal) throw refusal;
        written.push(status);
      },
    },
    settings: () => ({ seccompProfileRoot: "/nowhere" }),
    sizeChecks: new DocumentPlaces(),
  } as unknown as CellTools; // the parts that the step uses
  const outside = { written, created, refusals, inApi, sleeps, saves };
  return { tools, cell, ...outside };
}

describe("recordEnd()", () => {
  const end = { phase: "Succeeded", message: "all of it" } as const;

  it("has written the end into the Cell's status when it returns", async () => {
    const { tools, cell, written } = start(podOf("Never", {}), { end: { podEnd: end } });
    await cell.run((context) => recordEnd(tools, context));
    assert.deepEqual(
      written.map(({ phase, podEnd }) => ({ phase, podEnd })),
      [{ phase: "Claimed", podEnd: end }],
    );
    assert.deepEqual([cell.state.end.isRecorded, cell.state.cell.status.podEnd], [true, end]);
  });

  it("fails while the API does not answer, and writes only the phase if the rest is refused", async () => {
    const { tools, cell, written, refusals } = start(podOf("Never", {}), { end: { podEnd: end } });
    refusals.push(new K8sError("K8S_UNAVAILABLE", "away"), new K8sError("K8S_INVALID", "no"));
    const record = async (): Promise<void> =>
      await cell.run((context) => recordEnd(tools, context));
    await assert.rejects(record());
    assert.equal(cell.state.end.isRecorded, false);
    await record();
    assert.deepEqual(written[0]?.podEnd, { phase: "Succeeded" });
  });
});

describe("recordEnd() beside other writes", () => {
  it("has the end in a newer status that takes its place", async () => {
    const end = { phase: "Succeeded" } as const;
    const object = { metadata: { name: "c", uid: "c" }, spec: { podRef: {} } } as unknown as Cell; // the fields that are read
    const parts = { end: { podEnd: end }, cell: { object } };
    const { tools, cell } = start(podOf("Never", {}), parts);
    const written: CellStatus[] = [];
    const gate = Promise.withResolvers<void>();
    const writeStatus = async (_cell: Cell, status: CellStatus): Promise<void> => {
      written.push(status);
      await gate.promise;
    };
    const writer = new CellStatusWriter({ ...tools, store: { writeStatus } });
    const first = writer.write(object, cell.state.cell.status);
    const recorded = cell.run((context) => recordEnd({ ...tools, statuses: writer }, context));
    const last = writer.write(object, { ...cell.state.cell.status, startMs: { start: 1 } });
    gate.resolve();
    await Promise.all([first, recorded, last]);
    assert.deepEqual(written.at(-1)?.podEnd, end);
  });
});

describe("endPod()", () => {
  it("fails a pod of restartPolicy Never that ran on its lost cell", async () => {
    const { tools, cell } = start(podOf("Never", { main: running }));
    await cell.run((context) => endPod(tools, context));
    const { podEnd, isPodFinished } = cell.state.end;
    const state = podEnd?.containerStatuses?.[0]?.state?.terminated;
    assert.deepEqual([podEnd?.phase, podEnd?.reason], ["Failed", "CellLost"]);
    assert.deepEqual([state?.exitCode, isPodFinished], [137, true]);
  });

  it("does not end containers of a pod whose init containers had not completed", async () => {
    const pod = podOf("Never", { main: { waiting: { reason: "PodInitializing" } } });
    const { spec, status } = podOf("Never", { init: running });
    const { tools, cell } = start({
      ...pod,
      spec: { ...pod.spec, initContainers: spec.containers },
      status: { ...pod.status, initContainerStatuses: status?.containerStatuses ?? [] },
    });
    await cell.run((context) => endPod(tools, context));
    const { podEnd } = cell.state.end;
    const lists = [podEnd?.initContainerStatuses, podEnd?.containerStatuses];
    const ended = lists.flat().map((each) => each?.state?.terminated?.exitCode);
    assert.deepEqual([podEnd?.reason, ended], ["CellLost", [137, undefined]]);
    const initialized = cell.state.status?.conditions?.find(({ type }) => type === "Initialized");
    assert.equal(initialized?.status, "False");
  });

  for (const policy of ["Never", "OnFailure"]) {
    it(`reports Succeeded for a pod whose containers had all completed, with restartPolicy ${policy}`, async () => {
      const { tools, cell } = start(podOf(policy, { a: completed, b: completed }));
      await cell.run((context) => endPod(tools, context));
      const { podEnd } = cell.state.end;
      assert.deepEqual([podEnd?.phase, podEnd?.reason], ["Succeeded", undefined]);
    });
  }
});

describe("awaitEndInApi()", () => {
  it("reads with growing pauses, publishes the status again, and returns when the pod has ended or is gone", async () => {
    for (const last of ["ended", "gone"] as const) {
      const pod = podOf("Never", {});
      const { tools, cell, inApi, sleeps } = start(pod, { status: { phase: "Running" } });
      inApi.push("open", "open", "open", last);
      let publications = 0;
      await cell.run(async (context) => {
        const change: CellContext["change"] = (each) => {
          const before = cell.state.status;
          context.change(each);
          if (each.kind === "publishAgain" && cell.state.status !== before) publications++;
        };
        return await awaitEndInApi(tools, { ...context, change });
      });
      assert.deepEqual([cell.state.end.isInApi, publications], [true, 3]);
      assert.ok((sleeps[0] ?? 0) < (sleeps[2] ?? 0));
    }
  });

  it("does not hold up the removal of a pod whose end is never accepted", async () => {
    const wanted = { kind: "remove", graceSeconds: 0 } as const;
    const { tools, cell, sleeps } = start(podOf("Never", {}), { pod: { wanted } });
    await cell.run((context) => awaitEndInApi(tools, context));
    assert.equal(cell.state.end.isInApi, true);
    assert.ok(sleeps.length > 3 && sleeps.length < 20, `${sleeps.length} pauses`);
  });
});

describe("createCell()", () => {
  const away = { cell: { object: undefined, status: { phase: "Pending" } } } as const;

  it("takes over the status of a pod whose cell was lost while kip was not running", async () => {
    const pod = podOf("OnFailure", { done: completed, main: running });
    const { tools, cell, created } = start(pod, away);
    await cell.run((context) => createCell(tools, context));
    assert.deepEqual(created, [
      {
        instanceType: "t",
        restartCounts: { done: 1, main: 2 },
        ended: { done: completed.terminated },
      },
    ]);
    assert.equal(cell.state.end.isPodFinished, false);
  });

  it("takes a machine of the size that a pod had which was asked to be larger than all", async () => {
    const pod = podOf("Always", { main: { ...running } });
    const resources = { requests: { memory: "1Gi" } };
    const large = {
      ...pod.spec,
      containers: [{ name: "main", resources: { requests: { memory: "9Ti" } } }],
    };
    const had = {
      phase: "Running",
      containerStatuses: [{ name: "main", state: running, resources }],
    };
    const asked: unknown[] = [];
    const choose = async ({ pod: { spec } }: CellRequest): Promise<object> => {
      asked.push(spec.containers[0]?.resources?.requests?.["memory"]);
      if (asked.length === 2) return { instanceType: "t", restartCounts: {} };
      throw new InstanceTypeError("NO_INSTANCE_TYPE_FITS", "too large", {});
    };
    const { tools, cell, created } = start(
      { ...pod, spec: large, status: had } as unknown as Pod,
      away,
    ); // the fields that are read
    const choosing = { ...tools, chooser: { choose } } as unknown as CellTools; // the calls that are made
    await cell.run((context) => createCell(choosing, context));
    assert.deepEqual([asked, created.length], [["9Ti", "1Gi"], 1]);
    // A pod that has not run waits for a machine that fits.
    const fresh = start({ ...pod, spec: large, status: {} }, away);
    asked.length = 0;
    await assert.rejects(fresh.cell.run((context) => createCell(choosing, context)));
  });

  it("creates no cell for a pod whose containers had all completed", async () => {
    const pod = podOf("OnFailure", { done: completed });
    const { tools, cell, created } = start(pod, away);
    await cell.run((context) => createCell(tools, context));
    assert.deepEqual([created, cell.state.end.podEnd?.phase], [[], "Succeeded"]);
  });

  it("creates no cell while all containers that have not completed are held back", async () => {
    const pod = podOf("OnFailure", { done: completed, main: running });
    const { tools, cell, created } = start(pod, away);
    const { resolved } = cell.state.pod;
    const missingEnv = new Map([["main", 'secret "s" not found']]);
    const apply = (more: object): void => {
      const pod = { ...cell.state.pod, resolved: resolved && { ...resolved, ...more } };
      cell.state = { ...cell.state, pod };
    };
    apply({ missingEnv });
    const failed = cell.run((context) => createCell(tools, context));
    await assert.rejects(failed, { code: "VK_UNRESOLVED" });
    assert.deepEqual(created, []);
    apply({});
    await cell.run((context) => createCell(tools, context));
    assert.equal(created.length, 1);
  });

  it("creates no cell for a pod that no agent would take, and says why", async () => {
    const pod = podOf("Always", { main: running });
    const large = { metadata: { ...pod.metadata, annotations: { a: "x".repeat(maxBodyBytes) } } };
    const { tools, cell, created } = start({ ...pod, ...large }, away);
    const failed = cell.run((context) => createCell(tools, context));
    await assert.rejects(failed, { code: "POD_TOO_LARGE" });
    assert.deepEqual(created, []);
  });

  it("creates no cell for a pod whose full name is longer than a kernel takes, and says so in the kubelet's words", async () => {
    const pod = podOf("Always", { main: running });
    const spec = { ...pod.spec, subdomain: "s".repeat(63), setHostnameAsFQDN: true };
    const named = (more: object): Pod => ({
      metadata: { ...pod.metadata, namespace: "shop" },
      spec: { ...spec, ...more },
    });
    const { tools, cell, created } = start(named({}), away);
    const dns = async () => ({ clusterDomain: "cluster.local" });
    const failed = cell.run(
      async (context) => await createCell({ ...tools, dns } as unknown as CellTools, context), // the fields that are read
    );
    await assert.rejects(failed, (error) => {
      const { reason, message } = problemOf(error);
      assert.equal(reason, "FailedCreatePodSandBox");
      const name = `web.${"s".repeat(63)}.shop.svc.cluster.local`;
      assert.ok(
        message.startsWith(
          `Failed to create pod sandbox: failed to construct FQDN from pod hostname and cluster domain, FQDN ${name} is too long (64 characters is the max, 90 characters requested)`,
        ),
        message,
      );
      return true;
    });
    assert.deepEqual(created, []);
    for (const more of [{ hostNetwork: true }, { subdomain: "s".repeat(37) }]) {
      const other = start(named(more), away);
      await other.cell.run(
        async (context) =>
          await createCell({ ...other.tools, dns } as unknown as CellTools, context), // the fields that are read
      );
      assert.equal(other.created.length, 1);
    }
  });

  it("creates no cell for a pod with an invalid limit of its traffic, unless that has no effect", async () => {
    const { metadata, spec } = podOf("Always", { main: running });
    const annotations = { "kubernetes.io/ingress-bandwidth": "10 Mbit" };
    const pod = { metadata: { ...metadata, annotations } };
    const refused = start({ ...pod, spec }, away);
    await assert.rejects(
      refused.cell.run((context) => createCell(refused.tools, context)),
      (error) => {
        const { reason, message } = problemOf(error);
        assert.equal(reason, "FailedCreatePodSandBox");
        assert.match(message, /^Failed to create pod sandbox: Cannot limit .* for example 10M$/);
        return true;
      },
    );
    assert.deepEqual(refused.created, []);
    const taken = start({ ...pod, spec: { ...spec, hostNetwork: true } }, away);
    await taken.cell.run((context) => createCell(taken.tools, context));
    assert.equal(taken.created.length, 1);
  });

  it("checks one pod in a turn of the event loop", async () => {
    const pod = podOf("Always", { main: running });
    const pods = Array.from({ length: 3 }, () => start(pod, away));
    const { sizeChecks } = start(pod).tools;
    const all = pods.map(
      async ({ tools, cell }) =>
        await cell.run((context) => createCell({ ...tools, sizeChecks }, context)),
    );
    const seen = [0];
    while (seen.at(-1) !== 3) {
      await setImmediate();
      seen.push(pods.flatMap(({ created }) => created).length);
    }
    await Promise.all(all);
    const most = Math.max(...seen.slice(1).map((count, turn) => count - (seen[turn] ?? 0)));
    assert.equal(most, 1);
  });

  it("does not start a pod of restartPolicy Never again", async () => {
    const pod = podOf("Never", { main: running });
    const { tools, cell, created } = start(pod, away);
    await cell.run((context) => createCell(tools, context));
    assert.deepEqual([created, cell.state.end.podEnd?.reason], [[], "CellLost"]);
  });
});

describe("saveLogs()", () => {
  const report = { initContainers: [], containers: [], ephemeralContainers: [] };
  const facts = {
    end: { isPodFinished: true },
    agent: { client: {} as AgentClient, report: report as unknown as PodReport },
  };

  it("keeps no cell because its logs cannot be written", async () => {
    for (const error of [
      Object.assign(new Error("no space left"), { code: "ENOSPC" }),
      new CodedError("LOG_ARCHIVE_FAILED", "no place for logs"),
    ]) {
      const { tools, cell, saves } = start(podOf("Never", {}), facts);
      saves.push(async () => {
        throw error;
      });
      await cell.run((context) => saveLogs(tools, context));
      assert.equal(cell.state.agent.areLogsSaved, true);
    }
  });

  it("waits until clients have read the last output, ten seconds at most", async () => {
    const read = Promise.withResolvers<void>();
    const client = { outputRead: read.promise } as unknown as AgentClient;
    const reading = { ...facts, agent: { ...facts.agent, client } };
    const { tools, cell } = start(podOf("Never", {}), reading);
    const never = Promise.withResolvers<void>().promise;
    const patient = { ...tools, clock: { ...tools.clock, sleep: async () => await never } };
    const saving = cell.run((context) => saveLogs(patient, context));
    await setImmediate();
    assert.notEqual(cell.state.agent.areLogsSaved, true);
    read.resolve();
    await saving;
    assert.equal(cell.state.agent.areLogsSaved, true);

    const stuck = { outputRead: never } as unknown as AgentClient;
    const slow = start(podOf("Never", {}), { ...facts, agent: { ...facts.agent, client: stuck } });
    await slow.cell.run((context) => saveLogs(slow.tools, context));
    assert.deepEqual([slow.cell.state.agent.areLogsSaved, slow.sleeps], [true, [10_000]]);
  });

  it("waits for readers within the grace period of a pod that is removed, and shortly for one that moves", async () => {
    const client = { outputRead: new Promise(() => {}) } as unknown as AgentClient;
    const waitOf = async (pod: NonNullable<CellStateParts["pod"]>): Promise<readonly number[]> => {
      const parts = { pod, end: {}, agent: { ...facts.agent, client } };
      const { tools, cell, sleeps } = start(podOf("Always", {}), parts);
      await cell.run((context) => saveLogs(tools, context));
      return sleeps;
    };
    const removed = (graceSeconds: number) =>
      ({ wanted: { kind: "remove", graceSeconds }, removeSince: 0 }) as const;
    assert.deepEqual(await waitOf(removed(30)), [10_000]);
    assert.deepEqual(await waitOf(removed(5)), [5000]);
    assert.deepEqual(await waitOf(removed(0)), [2000]);
    assert.deepEqual(await waitOf({}), [2000]);
  });

  it("fails when the connection is lost or the plan aborts it, to be repeated", async () => {
    const { tools, cell, saves } = start(podOf("Never", {}), facts);
    const save = async (signal?: AbortSignal): Promise<void> =>
      await cell.run((context) => saveLogs(tools, context), signal);
    const abort = new AbortController();
    saves.push(
      async () => {
        throw new AgentError("AGENT_UNREACHABLE", "gone");
      },
      async () => {
        abort.abort();
        abort.signal.throwIfAborted();
      },
    );
    await assert.rejects(save());
    await assert.rejects(save(abort.signal));
    assert.deepEqual([cell.state.agent.areLogsSaved, cell.state.agent.saveLogsSince], [false, 0]);
  });
});

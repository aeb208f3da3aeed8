import assert from "node:assert/strict";
import { describe, it, mock } from "node:test";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { setImmediate } from "node:timers/promises";
import { silentLogger, systemClock } from "@kip/base";
import { AgentError, type AgentClient, type PodReport } from "@kip/agent-api";
import type { Instance, InterruptionNotice } from "@kip/cloud";
import type { PodSpec } from "@kip/k8s-types";
import { podWith } from "@kip/k8s-types/testing";
import {
  VirtualKubeletError,
  type PodEvent,
  type PodStatusUpdate,
  type ProviderCallbacks,
  type ResolvedPod,
} from "@kip/virtual-kubelet";
import { KipMetrics } from "./metrics/kip-metrics.ts";
import type { AgentFollower, CellContext } from "./cell/cell-step.ts";
import { CellWorker } from "./cell/cell-worker.ts";
import { ProviderError } from "./errors.ts";
import type { Cell } from "./state/cell.ts";
import { cellsOfPod } from "./state/cells-of-pod.ts";
import { KipProvider, type KipProviderOptions } from "./provider.ts";

const pod = podWith({ metadata: { uid: "p" } });
const asked = { follow: false, previous: false, timestamps: false };
const signal = new AbortController().signal;

/** Lets pending promises and immediates run. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await setImmediate();
}

const silentAgent = { [Symbol.asyncDispose]: async () => {} };

/** A provider whose cells stay at their first step. */
async function start(
  agent?: Partial<AgentClient>,
  cells: readonly Cell[] = [],
  callbacks: Partial<ProviderCallbacks> = {},
) {
  const events: PodEvent[] = [];
  const statuses: PodStatusUpdate[] = [];
  const archived = new Map<string, string>();
  let step: CellContext | undefined;
  let follower: AgentFollower | undefined;
  let interrupt: (notice: InterruptionNotice) => void = () => {};
  let end: (instance: Instance) => void = () => {};
  const connect = (context: CellContext): void => {
    step = context;
    if (agent) context.change({ kind: "connected", client: agent as AgentClient });
  };
  const fakes = {
    driver: {
      onTerminated: (callback: typeof end) => {
        end = callback;
        return () => {};
      },
      onInterruption: (callback: typeof interrupt) => {
        interrupt = callback;
        return () => {};
      },
    },
    steps: {
      executors: {
        createCell: async (_step: object, context: CellContext) => {
          connect(context);
          await new Promise((resolve) => context.signal.addEventListener("abort", resolve));
        },
        observeInstance: async (_step: object, context: CellContext) => connect(context),
        recordEnd: async (_step: object, context: CellContext) => connect(context),
        deleteCell: async (_step: object, context: CellContext) => connect(context),
      },
      followAgent: async (_client: AgentClient, each: AgentFollower) => void (follower = each),
      noteReport: () => {},
      noteStatus: () => {},
      flush: async () => {},
    },
    cells: {
      synced: Promise.resolve(),
      isSynced: true,
      list: () => cells,
      ofPod: (podUid: string) => cellsOfPod(cells, podUid),
    },
    metrics: new KipMetrics(),
    archive: {
      read: async (_uid: string, container: string) => {
        const log = archived.get(container);
        return log === undefined ? undefined : Readable.from([log]);
      },
      remove: async () => {},
      pods: async () => [],
    },
    limits: { bootMs: 1000, unreachableLimitMs: 1000, drainLeewayMs: 1000 },
    nodeFacts: { capacity: {}, internalIp: "192.0.2.1" },
    clock: systemClock,
    logger: silentLogger,
  };
  const provider = new KipProvider(fakes as unknown as KipProviderOptions); // the methods that are called
  await provider.start({
    podStatus: (status) => void statuses.push(status),
    podEvent: (event) => events.push(event),
    nodeChanged: () => {},
    ...callbacks,
  });
  await provider.apply({ pod } as unknown as ResolvedPod); // the fields that are read
  await settle();
  const { archive } = fakes;
  const seen = { step: () => step, follower: () => follower };
  return { provider, archive, archived, events, statuses, interrupt, end, ...seen };
}

function report(...sequences: readonly number[]): PodReport {
  const time = new Date(Date.now() + 60_000).toISOString();
  return {
    podUid: "p",
    generation: 1,
    phase: "Running",
    startTime: time,
    initContainers: [],
    containers: [],
    ephemeralContainers: [],
    events: sequences.map((sequence) => ({
      sequence,
      type: "Normal",
      reason: "Started",
      message: String(sequence),
      time,
    })),
    timingsMs: {},
  };
}

describe("KipProvider", () => {
  it("does not take a pod that a kubelet would not", async () => {
    const { provider } = await start();
    const windows = podWith({ metadata: { uid: "w" }, spec: { os: { name: "windows" } } });
    await assert.rejects(
      provider.admit(windows),
      (error) =>
        VirtualKubeletError.is(error, "VK_INVALID_POD") && error.reason === "PodOSNotSupported",
    );
    await provider.admit(podWith({ metadata: { uid: "linux" } }));
    await provider.stop();
  });

  it("judges a pod by the labels that others gave the node, and asks for them before it refuses one", async () => {
    let [seen, present] = [{ rack: "7" }, { rack: "7" }];
    let reads = 0;
    const { provider } = await start(undefined, [], {
      nodeLabels: () => seen,
      readNodeLabels: async () => {
        reads++;
        return present;
      },
    });
    const admit = async (rack: string): Promise<void> =>
      await provider.admit(podWith({ metadata: { uid: rack }, spec: { nodeSelector: { rack } } }));
    await admit("7");
    assert.equal(reads, 0);
    await assert.rejects(
      admit("8"),
      (error) => VirtualKubeletError.is(error) && error.reason === "NodeAffinity",
    );
    assert.equal(reads, 1);
    present = { rack: "8" };
    await admit("8");
    seen = present;
    await admit("8");
    assert.equal(reads, 2);
    await provider.stop();
  });

  it("asks for the labels of a node that it has not seen yet, if a pod selects by them", async () => {
    let reads = 0;
    const { provider } = await start(undefined, [], {
      nodeLabels: () => undefined,
      readNodeLabels: async () => {
        reads++;
        return { rack: "7" };
      },
    });
    const admit = async (spec: Partial<PodSpec>): Promise<void> =>
      await provider.admit(podWith({ metadata: { uid: "a" }, spec }));
    await admit({});
    assert.equal(reads, 0);
    await admit({ nodeSelector: { rack: "7" } });
    await assert.rejects(
      admit({ nodeSelector: { rack: "8" } }),
      (error) => VirtualKubeletError.is(error) && error.reason === "NodeAffinity",
    );
    await provider.stop();
  });

  it("has no log of a container that has not started", async () => {
    const { provider } = await start();
    await assert.rejects(provider.logs(pod, "main", asked, signal), (error) =>
      VirtualKubeletError.is(error, "VK_NOT_FOUND"),
    );
    await provider.stop();
  });

  it("says that a cell is out of reach only where there may be a log", async () => {
    const { provider } = await start();
    const runs = { ...pod, metadata: { ...pod.metadata, uid: "q" }, status: { phase: "Running" } };
    await assert.rejects(provider.logs(runs, "main", asked, signal), (error) =>
      ProviderError.is(error, "CELL_NOT_READY"),
    );
    const ended = { ...runs, status: { phase: "Succeeded" } };
    await assert.rejects(provider.logs(ended, "main", asked, signal), (error) =>
      VirtualKubeletError.is(error, "VK_NOT_FOUND"),
    );
    await provider.stop();
  });

  it("asks the agent, and reports a container that it does not have as not found", async () => {
    const logs = async (container: string): Promise<Readable> => {
      if (container === "main") return Readable.from(["line"]);
      throw new AgentError("AGENT_CONTAINER_UNKNOWN", "no such container");
    };
    const { provider, follower } = await start({ logs, ...silentAgent });
    follower()?.onReport(report());
    assert.ok(await provider.logs(pod, "main", asked, signal));
    await assert.rejects(provider.logs(pod, "other", asked, signal), (error) =>
      VirtualKubeletError.is(error, "VK_NOT_FOUND"),
    );
    await provider.stop();
  });

  it("waits for the log of a pod that has just finished: its machine may go before it is read", async () => {
    const cut = async (): Promise<Readable> => Readable.from([]);
    const { provider, follower, archived } = await start({ logs: cut, ...silentAgent });
    const seen = follower();
    assert.ok(seen);
    seen.onReport({ ...report(), phase: "Succeeded" });
    const log = provider.logs(pod, "main", asked, signal);
    archived.set("main", "all of it");
    assert.equal(await text(await log), "all of it");
    await provider.stop();
  });

  it("publishes each event once, and counts from the start again when the agent does", async () => {
    const { provider, events, follower } = await start(silentAgent);
    for (const each of [report(1, 2), report(1, 2, 3), report(1)]) follower()?.onReport(each);
    assert.deepEqual(
      events.map(({ message }) => message),
      ["1", "2", "3", "1"],
    );
    await provider.stop();
  });

  it("publishes the first events of a pod's next cell, however many they are", async () => {
    const { provider, events, follower, step } = await start(silentAgent);
    const replace = (uid: string): void => {
      const podRef = { namespace: "default", name: "web", uid: "p" };
      const cell = { metadata: { uid }, spec: { podRef, attempt: 0 } } as unknown as Cell; // the fields that are read
      step()?.change({ kind: "cellDeleted", isLost: true });
      step()?.change({ kind: "cellCreated", cell, apiMs: 0 });
      step()?.change({ kind: "connected", client: silentAgent as unknown as AgentClient });
    };
    replace("first");
    follower()?.onReport(report(1, 2));
    replace("second");
    for (const each of [report(1, 2, 3), report(1, 2, 3, 4)]) follower()?.onReport(each);
    assert.deepEqual(
      events.map(({ message }) => message),
      ["1", "2", "1", "2", "3", "4"],
    );
    await provider.stop();
  });

  it("reports an interruption once, also to a pod that is applied later", async () => {
    const cellOf = (podUid: string): Cell =>
      ({
        metadata: { uid: `cell-of-${podUid}` },
        spec: { podRef: { namespace: "default", name: podUid, uid: podUid }, attempt: 0 },
        status: { phase: "Claimed" },
      }) as unknown as Cell; // the fields that are read
    const { provider, events, interrupt } = await start(undefined, [cellOf("p"), cellOf("q")]);
    const tagged = { "kip-pod-uid": "p" };
    const untagged = {}; // it was a standby cell at the time of the notice
    for (const [token, tags] of [
      ["cell-of-p", untagged],
      ["cell-of-p", tagged],
      ["cell-of-q", untagged],
      ["cell-of-other", tagged],
    ] as const) {
      const instance = { id: "i-1", token, tags };
      interrupt({ instance, endsAt: "2026-01-01T00:00:00Z" } as InterruptionNotice);
    }
    await provider.apply({ pod: podWith({ metadata: { uid: "q" } }) } as unknown as ResolvedPod);
    assert.deepEqual(
      events.map(({ uid, reason, message }) => ({ uid, reason, message })),
      ["p", "q"].map((uid) => ({
        uid,
        reason: "CellInterrupted",
        message: 'The cloud takes instance "i-1" of this pod back at 2026-01-01T00:00:00Z',
      })),
    );
    await provider.stop();
  });

  it("forgets the notice of a Cell that was deleted", async () => {
    const cell = {
      metadata: { uid: "cell-of-q" },
      spec: { podRef: { namespace: "default", name: "q", uid: "q" }, attempt: 0 },
      status: { phase: "Claimed" },
    } as unknown as Cell; // the fields that are read
    const { provider, events, interrupt } = await start(undefined, [cell]);
    const instance = { id: "i-1", token: "cell-of-q", tags: {} };
    interrupt({ instance, endsAt: "2026-01-01T00:00:00Z" } as unknown as InterruptionNotice);
    provider.cellGone(cell);
    await provider.apply({ pod: podWith({ metadata: { uid: "q" } }) } as unknown as ResolvedPod);
    assert.deepEqual(events, []);
    await provider.stop();
  });

  it("tells the end of an instance to the worker of its pod alone, and one that stood by to all", async () => {
    const { provider, end } = await start();
    for (const uid of ["q", "r"])
      await provider.apply({ pod: podWith({ metadata: { uid } }) } as unknown as ResolvedPod);
    const told = mock.method(CellWorker.prototype, "instanceEnded");
    const ends = [{ "kip-pod-uid": "q" }, { "kip-pod-uid": "gone" }, {}].map((tags) => {
      end({ id: "i-1", token: "a", tags } as unknown as Instance); // the fields that are read
      return told.mock.callCount();
    });
    told.mock.restore();
    assert.deepEqual(ends, [1, 1, 4]);
    await provider.stop();
  });

  it("hostile cell: ignores reports about another pod", async () => {
    const { provider, events, statuses, follower } = await start(silentAgent);
    await provider.apply({ pod: podWith({ metadata: { uid: "q" } }) } as unknown as ResolvedPod);
    await settle();
    const ofQ = follower();
    await provider.apply({ pod } as unknown as ResolvedPod); // the fields that are read
    await settle();
    const before = statuses.length;
    ofQ?.onReport({ ...report(1), podUid: "p", phase: "Failed" });
    await settle();
    assert.equal(ofQ?.state().podRef.uid, "q");
    assert.deepEqual([events, statuses.length, ofQ.state().agent.report], [[], before, undefined]);
    ofQ.onReport({ ...report(1), podUid: "q" });
    await settle();
    assert.deepEqual(
      [...new Set([...events, ...statuses.slice(before)].map(({ uid }) => uid))],
      ["q"],
    );
    await provider.stop();
  });

  const cellOf = (podUid: string, status: Cell["status"]): Cell =>
    ({
      metadata: { uid: `cell-of-${podUid}` },
      spec: { podRef: { namespace: "default", name: podUid, uid: podUid }, attempt: 0 },
      status,
    }) as unknown as Cell; // the fields that are read

  it("finish() resolves when the pod and its cell have ended, at once for a pod without a cell", async () => {
    const { provider, step } = await start();
    const done = provider.finish(pod, signal);
    await done;
    assert.equal(step()?.state().end.isPodFinished, true);
    const other = podWith({ metadata: { uid: "other" } });
    await provider.finish(other, signal);
    assert.equal(provider.hasWorker("other"), false);
    await provider.stop();
  });

  it("does not list a pod as present when only its log remains", async () => {
    const { provider } = await start();
    assert.equal(await provider.presence("p"), "present");
    await provider.finish(pod, signal);
    assert.equal(await provider.presence("p"), "absent");
    await provider.stop();
  });

  it("publishes the end in the Cell after a restart, of a pod that is applied or removed", async () => {
    const podEnd = { phase: "Succeeded" } as const;
    const cells = ["p", "q"].map((uid) => cellOf(uid, { phase: "Claimed", podEnd }));
    const { provider, statuses } = await start(undefined, cells);
    const removed = podWith({ metadata: { uid: "q" } });
    const removal = provider.remove(removed, 0, signal);
    await settle();
    assert.deepEqual(
      statuses.map(({ uid, status }) => [uid, status.phase]).slice(0, 2),
      ["p", "q"].map((uid) => [uid, "Succeeded"]),
    );
    await provider.stop();
    await assert.rejects(removal);
  });

  it("follows a pod on its cell that cannot be applied after a restart, and sends it nothing", async () => {
    const ofResumed = cellOf("q", { phase: "Claimed" });
    const { provider, statuses, step, follower } = await start(silentAgent, [ofResumed]);
    const spec = { containers: [{ name: "main", image: "i" }] };
    const resumed = podWith({ metadata: { uid: "q" }, spec, status: { phase: "Running" } });
    await provider.resume(podWith({ metadata: { uid: "none" } }));
    assert.equal(provider.hasWorker("none"), false);
    await provider.resume(resumed);
    await settle();
    step()?.change({ kind: "machine", state: "running" });
    await settle();
    follower()?.onReport({ ...report(), podUid: "q", phase: "Succeeded" });
    await settle();
    const last = statuses.findLast(({ uid }) => uid === "q");
    assert.equal(last?.status.phase, "Succeeded");
    await provider.stop();
  });

  it("sees the readiness gates of a pod that cannot be applied after a restart", async () => {
    const { provider, statuses, step, follower } = await start(silentAgent, [
      cellOf("q", { phase: "Claimed" }),
    ]);
    const conditionType = "example.com/ready";
    const spec = {
      containers: [{ name: "main", image: "i" }],
      readinessGates: [{ conditionType }],
    };
    const resume = async (status: "True" | "False"): Promise<void> => {
      const conditions = [{ type: conditionType, status }];
      const seen = { metadata: { uid: "q" }, spec, status: { phase: "Running", conditions } };
      await provider.resume(podWith(seen));
      await settle();
    };
    const ready = (): string | undefined =>
      statuses.at(-1)?.status.conditions?.find(({ type }) => type === "Ready")?.status;
    await resume("False");
    step()?.change({ kind: "machine", state: "running" });
    await settle();
    const running = { startedAt: "2026-11-27T03:00:00Z" };
    const main = { name: "main", image: "i", ready: true, started: true, restartCount: 0, running };
    follower()?.onReport({ ...report(), podUid: "q", phase: "Running", containers: [main] });
    await settle();
    assert.equal(ready(), "False");
    await resume("True");
    assert.equal(ready(), "True");
    await provider.stop();
  });

  it("remove() ends with its signal and with the provider", async () => {
    const { provider } = await start();
    provider.cellChanged(cellOf("p", { phase: "Claimed" }));
    const abort = new AbortController();
    const first = provider.remove(pod, 30, abort.signal);
    abort.abort(new Error("not wanted"));
    await assert.rejects(first, /not wanted/);
    const second = provider.remove(pod, 30, signal);
    await provider.stop();
    await assert.rejects(second, /stopped/);
  });

  it("remove() does not wait for logs that cannot be deleted", async () => {
    const { provider, archive } = await start();
    archive.remove = async () => {
      throw Object.assign(new Error("read-only file system"), { code: "EROFS" });
    };
    await provider.remove(pod, 0, signal);
    await provider.removeUnknown("p");
    assert.equal(provider.hasWorker("p"), false);
  });

  it("forgets a pod that was removed", async () => {
    const { provider } = await start();
    await Promise.all([provider.remove(pod, 30), provider.removeUnknown("p")]);
    assert.equal(provider.hasWorker("p"), false);
    assert.equal(await provider.presence("p"), "absent");
    assert.deepEqual(await provider.list(), []);
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import { CodedError, createLogger } from "@kip/base";
import { AgentError, type AgentClient, type PodReport } from "@kip/agent-api";
import { K8sError } from "@kip/k8s-client";
import type { Instance } from "@kip/cloud";
import type { Pod } from "@kip/k8s-types";
import { podWith } from "@kip/k8s-types/testing";
import { ManualClock } from "@kip/testing";
import type { ResolvedPod } from "@kip/virtual-kubelet";
import { CellWorker } from "./cell-worker.ts";
import type { CellContext, CellStep } from "./cell-step.ts";
import type { CellChange } from "../state/cell-change.ts";
import type { CellState } from "../state/cell-state.ts";
import type { Cell } from "../state/cell.ts";

/** Lets pending promises and immediates run. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await setImmediate();
}

type Fake = (
  context: CellContext,
  step: CellStep,
) => Promise<CellChange | undefined | void> | CellChange;
const untilAborted: Fake = async ({ signal }) =>
  await new Promise((_resolve, reject) =>
    signal.addEventListener("abort", () => reject(new Error("Aborted")), { once: true }),
  );

function newCell(uid: string, attempt = 0): Cell {
  return {
    metadata: { name: uid, uid },
    spec: { podRef: { uid: "p" }, attempt, restartCounts: {} },
  } as unknown as Cell; // the fields that are read
}

/** A worker whose steps succeed at once, unless the test replaces them. */
function start(fakes: Partial<Record<CellStep["kind"], Fake>> = {}) {
  const clock = new ManualClock();
  const steps: string[] = [];
  const problems: string[] = [];
  const events: string[] = [];
  const warnings: string[] = [];
  const logger = createLogger({ level: "warn", write: (line) => void warnings.push(line) });
  const agent = { [Symbol.asyncDispose]: async () => {} } as unknown as AgentClient;
  let cells = 0;
  const claimed = { phase: "Claimed" } as const;
  const usual: Partial<Record<CellStep["kind"], Fake>> = {
    createCell: ({ state }) => {
      const cell = newCell(`c${++cells}`, state().history.attempt);
      return { kind: "cellCreated", cell, apiMs: 0 };
    },
    expire: ({ change }) => {
      change({ kind: "ended", podEnd: { phase: "Failed" } });
      return { kind: "waits", reason: "DeadlineExceeded", message: "too long" };
    },
    observeInstance: () => ({ kind: "machine", state: "none" }),
    launch: () => launched("running"),
    connect: () => ({ kind: "connected", client: agent }),
    dispatch: ({ change, state }) => {
      change({ kind: "cellStatus", status: claimed });
      return dispatched(state());
    },
    drain: ({ change }) => {
      change({ kind: "draining" });
      change({ kind: "cellStatus", status: { phase: "Draining" } });
      return { kind: "drained", graceSeconds: 30, isEmpty: false };
    },
    endPod: () => ({ kind: "ended", podEnd: { phase: "Failed", reason: "CellLost" } }),
    recordEnd: () => ({ kind: "endRecorded" }),
    awaitEndInApi: () => ({ kind: "endInApi" }),
    saveLogs: () => ({ kind: "logsSaved" }),
    noteReach: (_context, step) => ({
      kind: "reach",
      isOutOfReach: step.kind === "noteReach" && step.isOutOfReach,
    }),
    terminate: ({ change }) => {
      change({ kind: "terminated" });
      return { kind: "agentLost" };
    },
    deleteCell: (_context, step) => ({
      kind: "cellDeleted",
      isLost: step.kind === "deleteCell" && step.isLost,
    }),
  };
  const execute = async (step: CellStep, context: CellContext): Promise<CellChange | undefined> => {
    steps.push(step.kind);
    return (await (fakes[step.kind] ?? usual[step.kind])?.(context, step)) ?? undefined;
  };
  const kinds = Object.keys(usual).map((kind) => [kind, execute]);
  const worker = new CellWorker({
    podRef: { namespace: "default", name: "web", uid: "p" },
    nodeIp: "192.0.2.1",
    steps: {
      executors: Object.fromEntries(kinds),
      outages: { failed: () => {} },
      followAgent: async () => {},
      noteReport: () => {},
      noteStatus: () => {},
      flush: async () => {},
    },
    limits: { bootMs: 1_200_000, unreachableLimitMs: 90_000, drainLeewayMs: 15_000 },
    clock,
    logger,
    onChange: () => {},
    onReport: () => {},
    onEvent: (type, reason) => (type === "Warning" ? problems : events).push(reason),
  });
  const count = (kind: string): number => steps.filter((each) => each === kind).length;
  const run = async (): Promise<void> => {
    worker.apply({ pod: podWith() } as unknown as ResolvedPod); // handed through
    await settle();
  };
  return { worker, clock, steps, problems, events, warnings, count, run };
}

/** The cloud has started an instance in this state. */
function launched(state: "running" | "terminated"): CellChange {
  return { kind: "launched", instance: { state, tags: {} } as unknown as Instance, cloudMs: 0 }; // the fields that are read
}

function dispatched({ pod }: CellState, renewInMs?: number): CellChange {
  assert.ok(pod.resolved);
  const { resolved } = pod;
  return { kind: "dispatched", resolved, generation: 1, renewInMs, missingProfiles: [] };
}

/** Sends a document of this size in bytes. */
function sends(bytes: number): Fake {
  return ({ change, state }) => {
    change({ kind: "cellStatus", status: { phase: "Claimed" } });
    change({ kind: "documentMade", bytes, isTaken: true });
    return dispatched(state());
  };
}

/** A version of the pod. */
function version(number: number, spec: Partial<Pod["spec"]> = {}): ResolvedPod {
  const pod = podWith({ metadata: { annotations: { version: String(number) } }, spec });
  return { pod } as unknown as ResolvedPod; // handed through
}

function ended(phase: "Succeeded" | "Failed"): PodReport {
  const containers = [{ name: "main", terminated: {} }];
  return {
    podUid: "p",
    phase,
    initContainers: [],
    containers,
    ephemeralContainers: [],
  } as unknown as PodReport; // the fields that are read
}

describe("CellWorker", () => {
  it("gives the agent fresh credentials before those it has end", async () => {
    const { worker, clock, count, run } = start({
      dispatch: ({ change, state }) => {
        change({ kind: "cellStatus", status: { phase: "Claimed" } });
        return dispatched(state(), 3_600_000);
      },
    });
    await run();
    assert.equal(count("dispatch"), 1);
    await clock.advance(3_500_000);
    assert.equal(count("dispatch"), 1);
    await clock.advance(200_000);
    assert.equal(count("dispatch"), 2);
    await clock.advance(3_600_000);
    assert.equal(count("dispatch"), 3);
    worker.remove(30);
    await settle();
    await clock.advance(60_000);
    assert.equal(clock.sleepers, 0);
  });

  it("starts a pod and stops it, and leaves no timer behind", async () => {
    const { worker, clock, steps, run } = start();
    await run();
    assert.deepEqual(steps, ["createCell", "launch", "connect", "dispatch"]);
    worker.remove(30);
    await settle();
    worker.reportSeen(ended("Succeeded"));
    await worker.settled;
    assert.deepEqual(steps.slice(4), ["drain", "saveLogs", "terminate", "deleteCell"]);
    await settle();
    assert.equal(clock.sleepers, 0);
  });

  it("ignores a Cell that it removed and that the watch still reports", async () => {
    const { worker, count, run } = start({ terminate: untilAborted });
    await run();
    const old = newCell("c1");
    worker.instanceEnded({ token: "c1" } as Parameters<CellWorker["instanceEnded"]>[0]);
    await settle();
    worker.cellSeen({ ...old, metadata: { ...old.metadata, deletionTimestamp: "now" } });
    assert.equal(worker.state.cell.object, undefined);
    assert.equal(worker.state.history.attempt, 1);
    assert.equal(count("createCell"), 1);
  });

  it("replaces a machine whose agent never answers", async () => {
    const { worker, clock, count, run } = start({ connect: untilAborted });
    await run();
    await clock.advance(1_199_000);
    assert.equal(count("terminate"), 0);
    await clock.advance(3000);
    assert.equal(count("terminate"), 1);
    assert.equal(count("createCell"), 2);
    await worker.stop();
  });

  it("ends a machine that does not stop its pod in time", async () => {
    const { worker, clock, count, run } = start({ drain: untilAborted });
    await run();
    worker.remove(5);
    await clock.advance(19_000);
    assert.equal(count("terminate"), 0);
    await clock.advance(1000);
    await worker.settled;
    assert.equal(count("terminate"), 1);
  });

  it("backs off while the cloud has no capacity, reports it once, and recovers", async () => {
    let isFull = true;
    let left = 500;
    const { worker, clock, count, problems, run } = start({
      launch: ({ change }) => {
        if (!isFull) return launched("running");
        change({ kind: "machine", state: "unknown" });
        throw new CodedError("CLOUD_NO_CAPACITY", `Cannot launch: ${left--} MiB left`);
      },
    });
    await run();
    await clock.advance(600_000);
    assert.ok(count("launch") >= 5 && count("launch") <= 15, `${count("launch")} launches`);
    assert.deepEqual(problems, ["CloudNoCapacity"]);
    assert.match(worker.state.wait.reason?.message ?? "", /Cannot launch/);
    isFull = false;
    await run();
    assert.equal(count("dispatch"), 1, "a change of the pod ends the pause");
    await worker.stop();
  });

  it("reports once why a launch waits, and keeps its place in the queue up to date", async () => {
    const launching = Promise.withResolvers<CellContext>();
    const { worker, problems, events, run } = start({
      launch: async (context, step) => {
        launching.resolve(context);
        await untilAborted(context, step);
      },
    });
    await run();
    const { change } = await launching.promise;
    for (const ahead of [2, 1]) {
      const message = `Other machines are starting; ${ahead} asked before`;
      change({ kind: "waits", reason: "CellWaits", message, isTurn: true });
      await settle();
    }
    assert.deepEqual(
      [events, problems],
      [["CellWaits"], []],
      "nothing is wrong while it waits for its turn",
    );
    assert.match(worker.state.wait.reason?.message ?? "", /; 1 asked before/);
    change({ kind: "waits", reason: "CellWaits", message: "Too little memory" });
    await settle();
    assert.deepEqual([events, problems], [["CellWaits"], ["CellWaits"]]);
    await worker.stop();
  });

  it("fails a pod that waits for its cell for longer than it may be active", async () => {
    const { worker, clock, count } = start({ launch: untilAborted });
    const status = { startTime: new Date(clock.now()).toISOString() };
    const spec = { containers: [], activeDeadlineSeconds: 60 };
    worker.apply({ pod: podWith({ spec, status }) } as unknown as ResolvedPod); // the fields that are read
    await clock.advance(59_000);
    assert.deepEqual([worker.state.end.isPodFinished, count("launch")], [false, 1]);
    await clock.advance(2000);
    assert.equal(worker.state.end.isPodFinished, true);
    await worker.settled;
    assert.deepEqual([count("createCell"), count("deleteCell")], [1, 1]);
  });

  it("leaves the deadline of a dispatched pod to the agent", async () => {
    const { worker, clock, count } = start();
    const status = { startTime: new Date(clock.now()).toISOString() };
    const spec = { containers: [], activeDeadlineSeconds: 60 };
    worker.apply({ pod: podWith({ spec, status }) } as unknown as ResolvedPod); // the fields that are read
    await clock.advance(600_000);
    assert.deepEqual([worker.state.end.isPodFinished, count("dispatch")], [false, 1]);
  });

  it("backs off when machines vanish in a row", async () => {
    const { worker, clock, count, run } = start({
      launch: () => launched("terminated"),
    });
    await run();
    await clock.advance(600_000);
    assert.ok(count("launch") >= 5 && count("launch") <= 15, `${count("launch")} launches`);
    worker.remove(0);
    await worker.settled;
  });

  it("hostile cell: replaces a machine whose agent answers only for moments", async () => {
    const { worker, clock, count, run } = start();
    await run();
    for (let turn = 0; turn < 20 && count("terminate") === 0; turn++) {
      if (worker.state.agent.client) worker.agentLost();
      await clock.advance(9000);
    }
    assert.equal(count("terminate"), 1);
    assert.ok(count("connect") < 15);
    await worker.stop();
  });

  it("replaces a machine that was restarted and has forgotten the pod that it ran", async () => {
    const { worker, clock, count, run } = start({
      connect: () => ({
        kind: "connected",
        client: { [Symbol.asyncDispose]: async () => {} } as unknown as AgentClient, // the methods that are called
        isPodLost: count("connect") === 2,
      }),
    });
    await run();
    await clock.advance(10_000);
    worker.agentLost();
    await settle();
    assert.deepEqual([count("terminate"), count("createCell")], [1, 1]);
    await worker.stop();
  });

  it("does not count a slow boot against an agent that is lost once", async () => {
    const answer = Promise.withResolvers<void>();
    const { worker, clock, count, run } = start({
      connect: async (context, step) => {
        if (count("connect") > 1) await untilAborted(context, step);
        await answer.promise;
        const client = { [Symbol.asyncDispose]: async () => {} } as unknown as AgentClient; // the methods that are called
        return { kind: "connected", client };
      },
    });
    await run();
    await clock.advance(600_000);
    answer.resolve();
    await settle();
    assert.equal(worker.state.cell.status.phase, "Claimed");
    worker.agentLost();
    await clock.advance(2000);
    assert.equal(count("terminate"), 0);
    await worker.stop();
  });

  it("does not take the end of containers for the pod's own when its Cell is deleted", async () => {
    const { worker, clock, count, run } = start();
    await run();
    worker.cellGone(newCell("c1"));
    await settle();
    worker.reportSeen(ended("Failed"));
    await clock.advance(1000);
    assert.equal(worker.state.end.isPodFinished, false);
    assert.equal(count("createCell"), 2);
    await worker.stop();
  });

  it("reports that the logs of a finished pod are saved before its machine has gone", async () => {
    const { worker, run, count } = start({ terminate: untilAborted });
    await run();
    worker.reportSeen(ended("Succeeded"));
    await worker.logsSaved;
    await settle();
    assert.deepEqual([count("saveLogs"), count("terminate"), count("deleteCell")], [1, 1, 0]);
    await worker.stop();
  });

  it("writes how a pod ended before its machine goes, and keeps its Cell until the API has it", async () => {
    const inApi = Promise.withResolvers<void>();
    const { worker, run, steps, count } = start({
      awaitEndInApi: async () => {
        await inApi.promise;
        return { kind: "endInApi" };
      },
    });
    await run();
    worker.reportSeen(ended("Succeeded"));
    await settle();
    const expected = ["recordEnd", "saveLogs", "terminate", "awaitEndInApi"];
    assert.deepEqual(steps.slice(-4), expected);
    assert.deepEqual([worker.state.end.podEnd?.phase, count("deleteCell")], ["Succeeded", 0]);
    inApi.resolve();
    await worker.settled;
    assert.equal(count("deleteCell"), 1);
  });

  it("takes over the end in the Cell, and does not start the pod again", async () => {
    const { worker, count, run } = start({
      observeInstance: () => ({ kind: "machine", state: "gone" }),
    });
    const podEnd = { phase: "Succeeded" } as const;
    worker.cellSeen({ ...newCell("c1"), status: { phase: "Terminating", podEnd } });
    await run();
    await worker.settled;
    assert.deepEqual(worker.state.end.podEnd, podEnd);
    assert.deepEqual([count("createCell"), count("awaitEndInApi"), count("deleteCell")], [0, 1, 1]);
  });

  it("stops a pod that is finished in the API, within its grace period, and ends its machine", async () => {
    const { worker, clock, steps, count, run } = start();
    await run();
    worker.finish();
    await settle();
    assert.deepEqual(steps.slice(4), ["drain"]);
    await clock.advance(44_000);
    assert.equal(count("terminate"), 0);
    await clock.advance(2000);
    await worker.settled;
    assert.deepEqual(steps.slice(5), ["terminate", "deleteCell"]);
    worker.finish();
    await settle();
    assert.equal(steps.length, 7);
  });

  it("gives up logs that no connection can fetch, with one time limit for all attempts", async () => {
    const { worker, clock, count, run } = start({
      saveLogs: ({ change }) => {
        change({ kind: "savingLogs" });
        throw new AgentError("AGENT_UNREACHABLE", "the connection is gone", { retryable: true });
      },
    });
    await run();
    worker.reportSeen(ended("Failed"));
    await clock.advance(40_000);
    assert.ok(count("saveLogs") >= 5);
    assert.equal(count("terminate"), 0);
    await clock.advance(10_000);
    await worker.settled;
    assert.equal(count("terminate"), 1);
  });

  it("pauses between repetitions of a step that changes nothing", async () => {
    const { worker, clock, count, run } = start({ launch: async () => {} });
    await run();
    await clock.advance(60_000);
    assert.ok(count("launch") >= 5 && count("launch") <= 15, `${count("launch")} launches`);
    await worker.stop();
  });

  it("obeys Retry-After of a server", async () => {
    const options = { retryable: true, retryAfterMs: 30_000 };
    const { worker, clock, count, run } = start({
      createCell: async () => {
        throw new K8sError("K8S_TOO_MANY_REQUESTS", "busy", options);
      },
    });
    await run();
    await clock.advance(29_000);
    assert.equal(count("createCell"), 1);
    await clock.advance(2000);
    assert.equal(count("createCell"), 2);
    await worker.stop();
  });

  it("settles again after new work", async () => {
    const { worker, run } = start();
    await run();
    worker.reportSeen(ended("Succeeded"));
    await worker.settled;
    worker.cellSeen(newCell("other"));
    let isSettled = false;
    void worker.settled.then(() => (isSettled = true));
    assert.equal(isSettled, false);
    await worker.settled;
    assert.equal(worker.state.cell.object, undefined);
  });

  it("closes a connection that is made while it stops", async () => {
    const gate = Promise.withResolvers<void>();
    let closed = 0;
    const agent = { [Symbol.asyncDispose]: async () => void closed++ };
    const { worker, run } = start({
      connect: async () => {
        await gate.promise;
        return { kind: "connected", client: agent as unknown as AgentClient }; // the parts that are used
      },
    });
    await run();
    const stopped = worker.stop();
    gate.resolve();
    await stopped;
    assert.equal(closed, 1);
  });

  it("takes the notice that a machine has got from its cloud, once", async () => {
    const { worker, clock, problems, count, run } = start();
    await run();
    const before = count("drain");
    const endsAt = (ms: number): string => new Date(clock.now() + ms).toISOString();
    const notice = endsAt(120_000);
    const running = { ...ended("Succeeded"), phase: "Running" } as const;
    worker.reportSeen(running);
    assert.deepEqual(problems, []);
    worker.reportSeen({ ...running, machineEndsAt: notice });
    // A malicious cell reports other times.
    worker.reportSeen({ ...running, machineEndsAt: endsAt(0) });
    await settle();
    assert.equal(worker.state.machine.interruption?.endsAt, notice);
    assert.deepEqual(problems, ["CellInterrupted"]);
    assert.equal(count("drain"), before);
    // No owner replaces its pod, so the pod is stopped in time.
    await clock.advance(119_000);
    assert.equal(count("drain"), before + 1);
    await worker.stop();
  });

  it("takes the earliest end that the queue or the machine names, in either order", async () => {
    for (const order of ["machine first", "queue first"]) {
      const { worker, clock, problems, count, run } = start();
      await run();
      const before = count("drain");
      const endsAt = (ms: number): string => new Date(clock.now() + ms).toISOString();
      const notice = endsAt(120_000);
      const running = { ...ended("Succeeded"), phase: "Running" } as const;
      const instance = { id: "i-1", token: "c1" };
      const queue = { instance, endsAt: endsAt(600_000) };
      if (order === "queue first") worker.interrupted(queue);
      worker.reportSeen({ ...running, machineEndsAt: notice });
      worker.interrupted(queue);
      await settle();
      assert.equal(worker.state.machine.interruption?.endsAt, notice, order);
      assert.equal(problems.length, order === "queue first" ? 2 : 1);
      await clock.advance(119_000);
      assert.equal(count("drain"), before + 1, order);
      await worker.stop();
    }
  });

  it("reports one end that is written in two forms once", async () => {
    const { worker, clock, problems, run } = start();
    await run();
    const at = new Date(Math.floor(clock.now() / 1000) * 1000 + 120_000).toISOString();
    const running = { ...ended("Succeeded"), phase: "Running" } as const;
    worker.reportSeen({ ...running, machineEndsAt: at.replace(".000Z", "Z") });
    worker.interrupted({ instance: { id: "i-1", token: "c1" }, endsAt: at });
    await settle();
    assert.deepEqual(problems, ["CellInterrupted"]);
    await worker.stop();
  });

  it("hostile cell: ignores an end of its machine that is too far away", async () => {
    const { worker, problems, warnings, run } = start();
    await run();
    const running = { ...ended("Succeeded"), phase: "Running" } as const;
    for (const machineEndsAt of ["9999-12-31T23:59:59Z", "9999-12-31T23:59:58Z"])
      worker.reportSeen({ ...running, machineEndsAt });
    await settle();
    assert.deepEqual([problems, worker.state.machine.interruption], [[], undefined]);
    assert.equal(warnings.length, 1);
    await worker.stop();
  });

  it("stops during a step", async () => {
    const { worker, clock, run } = start({ connect: untilAborted });
    await run();
    await worker.stop();
    await settle();
    assert.equal(clock.sleepers, 0);
  });

  for (const [length, bytes, atOnce, laterMs] of [
    ["small", 5000, 5, 10_000],
    ["large", 8 * 2 ** 20, 1, 90_000],
  ] as const)
    it(`sends ${length} documents of a pod that changes without pause now and then, the newest at last`, async () => {
      const { worker, clock, count, run } = start({ dispatch: sends(bytes) });
      await run();
      for (let number = 1; number <= 50; number++) {
        worker.apply(version(number));
        await settle();
      }
      assert.equal(count("dispatch"), atOnce);
      await clock.advance(laterMs);
      assert.equal(count("dispatch"), atOnce + 1);
      assert.equal(worker.state.agent.isDispatched, true);
      await clock.advance(600_000);
      assert.equal(count("dispatch"), atOnce + 1);
      worker.apply(version(51));
      await settle();
      assert.equal(count("dispatch"), atOnce + 2);
      await worker.stop();
    });

  it("stops a pod at once, and in a shorter time, while its newest version waits", async () => {
    const { worker, count, run } = start({
      dispatch: sends(8 * 2 ** 20),
      drain: (_context, step) => {
        assert.ok(step.kind === "drain");
        return { kind: "drained", graceSeconds: step.graceSeconds, isEmpty: false };
      },
    });
    await run();
    worker.apply(version(1));
    await settle();
    assert.deepEqual([count("dispatch"), count("drain")], [1, 0]);
    worker.remove(30);
    await settle();
    worker.remove(5);
    await settle();
    assert.deepEqual([count("dispatch"), count("drain")], [1, 2]);
    await worker.stop();
  });

  it("sends a shorter deadline within a second", async () => {
    const { worker, clock, count, run } = start({ dispatch: sends(8 * 2 ** 20) });
    await run();
    for (let seconds = 100; seconds > 90; seconds--) {
      worker.apply(version(1, { activeDeadlineSeconds: seconds }));
      await settle();
    }
    assert.equal(count("dispatch"), 1);
    await clock.advance(1000);
    assert.equal(count("dispatch"), 2);
    await worker.stop();
  });

  it("sends a shorter deadline at once that came while a large document was on its way", async () => {
    const answer = Promise.withResolvers<void>();
    const { worker, count, clock, run } = start({
      dispatch: async ({ change, state }) => {
        const done = dispatched(state());
        change({ kind: "cellStatus", status: { phase: "Claimed" } });
        await answer.promise;
        change({ kind: "documentMade", bytes: 8 * 2 ** 20, isTaken: true });
        return done;
      },
    });
    await run();
    worker.apply(version(1, { activeDeadlineSeconds: 5 }));
    await settle();
    await clock.advance(1000);
    assert.equal(count("dispatch"), 1);
    answer.resolve();
    await settle();
    assert.equal(count("dispatch"), 2);
    await worker.stop();
  });

  it("sends deadlines that get shorter again and again no more often than other changes", async () => {
    const { worker, clock, count, run } = start({ dispatch: sends(8 * 2 ** 20) });
    await run();
    for (let second = 0; second < 300; second++) {
      worker.apply(version(second, { activeDeadlineSeconds: 1_000_000 - second }));
      await settle();
      await clock.advance(1000);
    }
    // One in 90 seconds, one for the initial credit, and one for the deadline credit.
    assert.ok(count("dispatch") <= 6, `${count("dispatch")}`);
    await clock.advance(90_000);
    assert.equal(worker.state.agent.isDispatched, true);
    await worker.stop();
  });

  it("tries to give a cell its large pod again soon, and then less often", async () => {
    const { worker, clock, count, run } = start({
      dispatch: ({ change }) => {
        change({ kind: "cellStatus", status: { phase: "Claimed" } });
        change({ kind: "documentMade", bytes: 8 * 2 ** 20, isTaken: false });
        throw new AgentError("AGENT_UNREACHABLE", "no answer in time", { retryable: true });
      },
    });
    await run();
    await clock.advance(5000);
    assert.equal(count("dispatch"), 3);
    for (let second = 0; second < 90; second++) {
      await run();
      await clock.advance(1000);
    }
    assert.ok(count("dispatch") <= 3 + 5, `${count("dispatch")}`);
    await worker.stop();
  });

  it("does not send the pod again to an agent that has its newest version", async () => {
    let held: number | undefined = undefined;
    const { worker, clock, count, run } = start({
      connect: () => ({
        kind: "connected",
        client: { [Symbol.asyncDispose]: async () => {} } as unknown as AgentClient,
        generation: held,
      }),
    });
    await run();
    const reconnect = async (): Promise<void> => {
      await clock.advance(20_000);
      worker.agentLost();
      await settle();
    };
    held = 1;
    await reconnect();
    assert.deepEqual([count("connect"), count("dispatch")], [2, 1]);
    held = 0;
    await reconnect();
    assert.deepEqual([count("connect"), count("dispatch")], [3, 2]);
    held = 1;
    await clock.advance(20_000);
    worker.agentLost();
    worker.apply(version(2));
    await settle();
    assert.deepEqual([count("connect"), count("dispatch")], [4, 3]);
    await worker.stop();
  });

  it("sends a version that came during a request, although the agent has what was sent", async () => {
    const answer = Promise.withResolvers<void>();
    const sent: (ResolvedPod | undefined)[] = [];
    const { worker, clock, count, run } = start({
      connect: () => ({
        kind: "connected",
        client: { [Symbol.asyncDispose]: async () => {} } as unknown as AgentClient, // the methods that are called
        generation: count("dispatch"),
      }),
      dispatch: async ({ change, state }) => {
        change({ kind: "cellStatus", status: { phase: "Claimed" } });
        const done = dispatched(state());
        sent.push(state().pod.resolved);
        await answer.promise;
        change({ kind: "documentMade", bytes: 8 * 2 ** 20, isTaken: true });
        return done;
      },
    });
    await run();
    const next = version(2);
    worker.apply(next);
    await settle();
    answer.resolve();
    await settle();
    assert.equal(count("dispatch"), 1);
    // It is waiting for its time when the connection is lost. The agent has generation 1.
    await clock.advance(20_000);
    worker.agentLost();
    await settle();
    assert.deepEqual([count("connect"), worker.state.agent.isDispatched], [2, false]);
    await clock.advance(90_000);
    assert.deepEqual([count("dispatch"), sent[1] === next], [2, true]);
    await worker.stop();
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import * as fc from "fast-check";
import type { AgentClient, PodReport } from "@kip/agent-api";
import { silentLogger } from "@kip/base";
import type { Instance } from "@kip/cloud";
import { K8sError } from "@kip/k8s-client";
import { podWith } from "@kip/k8s-types/testing";
import { ManualClock } from "@kip/testing";
import { CellWorker } from "./cell-worker.ts";
import type { CellSteps } from "./cell-step.ts";
import { evictedReason } from "./interruption.ts";
import { drain, deleteCell, saveLogs } from "./steps/end-cell.ts";
import { awaitReplacement, evict } from "./steps/replace-pod.ts";
import type { CellTools } from "./steps/step-context.ts";
import type { Cell, CellStatus } from "../state/cell.ts";
import { CellStatusWriter } from "../store/cell-status-writer.ts";

/** Grace period in the pod's spec, seconds. */
const grace = 30;
const uid = "p";

interface Start {
  readonly owner: "ReplicaSet" | "StatefulSet";
  readonly noticeSeconds: number;
  /** Kip is killed at this call to the outside, before or after its effect, and restarted. */
  readonly death?: { readonly atCall: number; readonly isBefore: boolean } | undefined;
}

/** What happens beside kip's work. */
type Event =
  | { readonly kind: "time"; readonly seconds: number }
  | { readonly kind: "step"; readonly seconds: number }
  | { readonly kind: "restart" | "repeat" | "ready" | "stopped" }
  | { readonly kind: "budget"; readonly isAllowed: boolean }
  | { readonly kind: "delete"; readonly seconds: number };

const seconds = (max: number) => fc.integer({ min: 0, max });
const events: fc.Arbitrary<readonly Event[]> = fc.array(
  fc.oneof(
    {
      arbitrary: fc.record({ kind: fc.constant("time" as const), seconds: seconds(40) }),
      weight: 5,
    },
    {
      arbitrary: fc.record({
        kind: fc.constant("step" as const),
        seconds: fc.integer({ min: -900, max: 900 }),
      }),
      weight: 2,
    },
    {
      arbitrary: fc.record({ kind: fc.constantFrom("restart", "repeat", "ready", "stopped") }),
      weight: 4,
    },
    {
      arbitrary: fc.record({ kind: fc.constant("budget" as const), isAllowed: fc.boolean() }),
      weight: 1,
    },
    {
      arbitrary: fc.record({ kind: fc.constant("delete" as const), seconds: seconds(60) }),
      weight: 1,
    },
  ),
  { maxLength: 14 },
);
const starts: fc.Arbitrary<Start> = fc.record({
  owner: fc.constantFrom("ReplicaSet", "StatefulSet"),
  noticeSeconds: seconds(180),
  death: fc.option(fc.record({ atCall: fc.integer({ min: 1, max: 8 }), isBefore: fc.boolean() }), {
    nil: undefined,
  }),
});

/** The API, the cloud and the cell of one pod whose instance is reclaimed, and the kip that works on it. */
class World {
  readonly clock = new ManualClock();
  readonly endsAtMs: number;
  readonly #owner: Start["owner"];
  /** Allowed by a PodDisruptionBudget. */
  isAllowed = true;
  isReady = false;
  /** The removal that the API requests. Its time starts with the request. */
  removal: { readonly graceSeconds: number; readonly atMs: number } | undefined;
  evictions = 0;
  /** When the containers were first asked to stop, and their grace period. */
  stop: { readonly atMs: number; readonly graceSeconds: number } | undefined;
  isStopped = false;
  #cellStatus: CellStatus = { phase: "Claimed", startMs: {} };
  #isCellThere = true;
  #endsAt: string;
  #worker: CellWorker;
  readonly #onReady = new Set<() => void>();
  readonly #death: Start["death"];
  readonly #broken: string[] = [];
  #calls = 0;
  #lives = 0;

  constructor({ owner, noticeSeconds, death }: Start) {
    this.#death = death;
    this.#owner = owner;
    this.endsAtMs = noticeSeconds * 1000;
    this.#endsAt = this.#wallEnd();
    this.#worker = this.#life();
  }

  #wallEnd(): string {
    const leftMs = this.endsAtMs - this.clock.monotonic();
    return new Date(this.clock.now() + leftMs).toISOString();
  }

  /** The Cell. Its object never changes, because only kip writes its status. */
  get #cell(): Cell {
    const spec = { podRef: { uid }, attempt: 0, restartCounts: {} };
    const cell = { metadata: { name: "c", uid: "c" }, spec, status: this.#cellStatus };
    return cell as unknown as Cell; // the fields that are read
  }

  /** Starts a process of kip, which looks everything up again. */
  #life(): CellWorker {
    const worker = new CellWorker({
      podRef: { namespace: "default", name: "web", uid },
      nodeIp: "192.0.2.1",
      steps: {
        executors: this.#executors(),
        outages: { failed: () => {} },
        followAgent: async () => {},
        noteReport: () => {},
        noteStatus: () => {},
        flush: async () => {},
      },
      limits: { bootMs: 1_200_000, unreachableLimitMs: 90_000, drainLeewayMs: 15_000 },
      clock: this.clock,
      logger: silentLogger,
      onChange: () => {},
      onReport: () => {},
      onEvent: () => {},
    });
    worker.cellSeen(this.#cell);
    this.#notify(worker);
    if (this.removal) worker.remove(this.removal.graceSeconds, this.#pod);
    else worker.apply({ pod: this.#pod } as Parameters<CellWorker["apply"]>[0]); // the fields that are read
    return worker;
  }

  get #pod() {
    const owner = { apiVersion: "apps/v1", kind: this.#owner, name: "web", uid: "o" };
    return podWith({
      metadata: { name: "web", uid, ownerReferences: [{ ...owner, controller: true }] },
      spec: { terminationGracePeriodSeconds: grace, containers: [] },
    });
  }

  #notify(worker: CellWorker): void {
    const instance = { id: "i", token: "c", tags: {} } as unknown as Instance; // the fields that are read
    worker.interrupted({ instance, endsAt: this.#endsAt });
  }

  #executors(): CellSteps["executors"] {
    const tools = this.#tools();
    const done = async (): Promise<undefined> => undefined;
    const machine = { id: "i", token: "c", state: "running", tags: {} } as unknown as Instance; // the fields that are read
    const steps: Partial<CellSteps["executors"]> = {
      createCell: (_step, { signal }) => untilAborted(signal),
      observeInstance: async () => ({ kind: "machineSeen", instance: machine }),
      connect: async () => ({ kind: "connected", client: this.#agent, report: this.#report() }),
      dispatch: async (_step, { state }) => {
        this.#expect(this.stop === undefined, "a pod that was stopped is not sent again");
        const { resolved } = state().pod;
        assert.ok(resolved);
        return { kind: "dispatched", resolved, generation: 1, missingProfiles: [] };
      },
      evict: (_step, context) => evict(tools, context),
      awaitReplacement: (_step, context) => awaitReplacement(tools, context),
      drain: ({ graceSeconds }, context) => drain(tools, context, graceSeconds),
      saveLogs: (_step, context) => saveLogs(tools, context),
      terminate: async () => {
        this.#expect(this.isStopped || this.#isOverdue(), "the instance ends after the containers");
        return { kind: "terminated" };
      },
      deleteCell: ({ isLost }, context) => deleteCell(tools, context, isLost),
      awaitEndInApi: async () => ({ kind: "endInApi" }),
      endPod: done,
    };
    return steps as CellSteps["executors"]; // the planned steps
  }

  #tools(): CellTools {
    const life = ++this.#lives;
    const common = { clock: this.clock, logger: silentLogger };
    const writeStatus = async (_cell: unknown, status: CellStatus): Promise<void> => {
      // What a killed process had recorded is lost.
      if (life === this.#lives)
        await this.#call(() => void (this.#cellStatus = { ...this.#cellStatus, ...status }));
    };
    const tools = {
      ...common,
      statuses: new CellStatusWriter({ ...common, store: { writeStatus } }),
      store: { remove: async () => void (this.#isCellThere = false) },
      archive: { save: async () => {} },
      replacement: {
        evict: async (_ref: object, graceSeconds: number) =>
          await this.#call(() => this.#evict(graceSeconds)),
        ready: async (_ref: object, _owner: object, signal: AbortSignal) => {
          if (!this.isReady) await Promise.race([this.#untilReady(), untilAborted(signal)]);
        },
      },
      onEvent: () => {},
      onProblem: () => {},
    };
    return tools as unknown as CellTools; // the methods that are called
  }

  async #untilReady(): Promise<void> {
    await new Promise<void>((resolve) => this.#onReady.add(resolve));
  }

  /** A call to the outside. A process that is killed by it gets no response. */
  async #call<T>(effect: () => T): Promise<T> {
    const isLast = ++this.#calls === this.#death?.atCall;
    const result = isLast && this.#death?.isBefore ? undefined : effect();
    await setImmediate();
    if (!isLast) return result as T; // it had its effect
    this.#restart();
    return await new Promise(() => {});
  }

  /** The cloud's time of day is that of the computer when kip starts. */
  #restart(): void {
    void this.#worker.stop();
    // Like a restarted kubelet, kip counts a removal's time from its own start. The cloud still ends the instance in time.
    if (this.removal) this.removal = { ...this.removal, atMs: this.clock.monotonic() };
    this.#endsAt = this.#wallEnd();
    if (this.#isCellThere) this.#worker = this.#life();
  }

  #evict(graceSeconds: number): void {
    this.#expect(this.#owner === "ReplicaSet", "others are not evicted");
    if (!this.isAllowed) throw new K8sError("K8S_TOO_MANY_REQUESTS", "a budget forbids it");
    this.evictions++;
    this.remove(graceSeconds);
  }

  /** A client deletes the pod. A grace period can only get shorter. */
  remove(graceSeconds: number): void {
    const atMs = this.clock.monotonic();
    if (this.removal && this.removal.graceSeconds <= graceSeconds) return;
    this.removal = { graceSeconds, atMs };
    this.#worker.remove(graceSeconds, this.#pod);
  }

  get #agent(): AgentClient {
    const agent = {
      deletePod: async (graceSeconds: number) =>
        await this.#call(() => {
          const atMs = this.clock.monotonic();
          this.stop ??= { atMs, graceSeconds };
          this.#checkStop(atMs, graceSeconds);
        }),
      [Symbol.asyncDispose]: async () => {},
    };
    return agent as unknown as AgentClient; // the methods that are called
  }

  #report(): PodReport {
    const state = this.isStopped ? { terminated: { exitCode: 0 } } : { running: {} };
    const containers = [{ name: "main", ...state }];
    const report = { podUid: uid, initContainers: [], containers, ephemeralContainers: [] };
    return { ...report, events: [], phase: "Running" } as unknown as PodReport; // the fields that are read
  }

  /** Containers are never stopped earlier than necessary, nor with a longer grace period than was given. */
  #checkStop(atMs: number, graceSeconds: number): void {
    const most = this.#isMarked ? grace : (this.removal?.graceSeconds ?? grace);
    this.#expect(graceSeconds <= most, "an eviction does not make the grace period longer");
    const isDue = atMs >= this.#stopBy() || this.isReady || this.#isDeletedByClient(atMs);
    this.#expect(isDue, "the containers go on while there is time");
  }

  /** Whether the Cell says that the eviction was requested or is about to be. */
  get #isMarked(): boolean {
    return this.#cellStatus.reason === evictedReason;
  }

  #isDeletedByClient(atMs: number): boolean {
    if (!this.removal) return false;
    // Without an eviction there is nothing to wait for.
    const surplus = this.#isMarked ? this.removal.graceSeconds - grace : 0;
    return atMs >= this.removal.atMs + surplus * 1000;
  }

  /** When the containers have to start to stop because of the cloud. A notice may be too short for that. */
  #stopBy(): number {
    return this.endsAtMs - (grace + 5) * 1000;
  }

  #isOverdue(): boolean {
    return this.stop !== undefined && this.clock.monotonic() >= this.stop.atMs;
  }

  async do(event: Event): Promise<void> {
    switch (event.kind) {
      case "time":
        await this.clock.advance(event.seconds * 1000);
        break;
      case "step":
        this.clock.step(event.seconds * 1000);
        break;
      case "restart":
        this.#restart();
        break;
      case "repeat":
        this.#notify(this.#worker);
        break;
      case "ready":
        this.isReady = this.evictions > 0;
        if (this.isReady) for (const resolve of this.#onReady) resolve();
        break;
      case "stopped":
        if (!this.stop) break;
        this.isStopped = true;
        this.#worker.reportSeen(this.#report());
        break;
      case "budget":
        this.isAllowed = event.isAllowed;
        break;
      case "delete":
        this.remove(event.seconds);
    }
    await settle();
    this.#check();
  }

  /** The reconciler would treat a step that throws as failed, so problems are recorded. */
  #expect(isTrue: boolean, what: string): void {
    if (!isTrue) this.#broken.push(what);
  }

  #check(): void {
    assert.deepEqual(this.#broken, []);
    const nowMs = this.clock.monotonic();
    if (nowMs >= Math.max(0, this.#stopBy())) assert.ok(this.stop, "the containers stop in time");
    if (this.isReady) assert.ok(this.stop, "the containers stop once the replacement is ready");
    if (this.removal && this.#isDeletedByClient(nowMs))
      assert.ok(this.stop, "the containers stop as the API asks");
    if (this.#owner === "ReplicaSet" && this.isAllowed && !this.stop && nowMs < this.endsAtMs)
      assert.ok(this.removal ?? this.clock.sleepers > 0, "the pod is replaced, or asked for again");
  }

  end(): void {
    void this.#worker.stop();
  }
}

async function untilAborted(signal: AbortSignal): Promise<never> {
  return await new Promise((_resolve, reject) =>
    signal.addEventListener("abort", () => reject(new Error("Aborted")), { once: true }),
  );
}

async function settle(): Promise<void> {
  for (let turn = 0; turn < 30; turn++) await setImmediate();
}

async function play(start: Start, plan: readonly Event[]): Promise<World> {
  const world = new World(start);
  try {
    await settle();
    for (const event of plan) await world.do(event);
  } finally {
    world.end();
  }
  return world;
}

const time = (of: number): Event => ({ kind: "time", seconds: of });

describe("a pod whose instance the cloud takes back", () => {
  it("stops when it must and not before, whatever happens meanwhile", async () => {
    await fc.assert(
      fc.asyncProperty(starts, events, async (start, plan) => void (await play(start, plan))),
      {
        numRuns: 200,
        examples: [
          [
            { owner: "ReplicaSet", noticeSeconds: 48 },
            [{ kind: "delete", seconds: 42 }, time(1), { kind: "restart" }, time(11)],
          ],
        ],
      },
    );
  });

  it("goes on until its replacement is ready", async () => {
    const start = { owner: "ReplicaSet", noticeSeconds: 120 } as const;
    const { stop, evictions } = await play(start, [time(20), { kind: "ready" }, time(1)]);
    assert.deepEqual([stop, evictions], [{ atMs: 20_000, graceSeconds: grace }, 1]);
  });

  it("goes on until its replacement is ready after a restart of kip, and a clock that was set", async () => {
    const start = { owner: "ReplicaSet", noticeSeconds: 120 } as const;
    const back: Event = { kind: "step", seconds: -300 };
    const plan = [time(10), { kind: "restart" }, back, time(20), { kind: "ready" }] as const;
    const { stop, evictions } = await play(start, plan);
    assert.deepEqual([stop, evictions], [{ atMs: 30_000, graceSeconds: grace }, 1]);
  });

  it("stops in time after a restart of kip", async () => {
    const start = { owner: "ReplicaSet", noticeSeconds: 120 } as const;
    const { stop } = await play(start, [time(50), { kind: "restart" }, time(34), time(1)]);
    assert.deepEqual(stop, { atMs: 85_000, graceSeconds: grace });
  });

  it("has its whole grace period if no replacement gets ready", async () => {
    const start = { owner: "ReplicaSet", noticeSeconds: 120 } as const;
    const { stop } = await play(start, [time(84), time(1)]);
    assert.deepEqual(stop, { atMs: 85_000, graceSeconds: grace });
  });

  it("has what is left if the notice is short, and is replaced at once", async () => {
    const start = { owner: "ReplicaSet", noticeSeconds: 20 } as const;
    const { stop, evictions } = await play(start, [time(1)]);
    assert.deepEqual([stop, evictions], [{ atMs: 0, graceSeconds: 15 }, 1]);
  });

  it("is not evicted while a budget forbids it, and stops in time", async () => {
    const start = { owner: "ReplicaSet", noticeSeconds: 60 } as const;
    const plan = [{ kind: "budget", isAllowed: false }, time(24), time(2)] as const;
    const world = new World(start);
    world.isAllowed = false;
    await settle();
    for (const event of plan) await world.do(event);
    assert.deepEqual([world.stop?.atMs, world.evictions], [25_000, 0]);
    world.end();
  });

  it("is evicted as soon as a budget allows it", async () => {
    const world = new World({ owner: "ReplicaSet", noticeSeconds: 120 });
    world.isAllowed = false;
    await settle();
    for (const event of [time(12), { kind: "budget", isAllowed: true }, time(5)] as const)
      await world.do(event);
    assert.deepEqual([world.evictions, world.removal?.atMs], [1, 15_000]);
    world.end();
  });

  it("of another owner stays, and moves in time", async () => {
    const start = { owner: "StatefulSet", noticeSeconds: 120 } as const;
    const { stop, evictions } = await play(start, [time(84), time(2)]);
    assert.deepEqual([stop, evictions], [{ atMs: 85_000, graceSeconds: grace }, 0]);
  });
});

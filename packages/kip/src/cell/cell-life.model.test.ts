import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import * as fc from "fast-check";
import type { AgentClient, DesiredPod, PodReport } from "@kip/agent-api";
import { silentLogger } from "@kip/base";
import type { Instance } from "@kip/cloud";
import type { Pod, PodStatus } from "@kip/k8s-types";
import { podWith } from "@kip/k8s-types/testing";
import { ManualClock } from "@kip/testing";
import { noTracer } from "@kip/virtual-kubelet/telemetry";
import { KipMetrics } from "../metrics/kip-metrics.ts";
import { KipProvider, type KipProviderOptions } from "../provider.ts";
import type { CellRequest } from "../selection/cell-chooser.ts";
import type { CellChange } from "../state/cell-change.ts";
import type { AgentFollower, CellContext, CellSteps } from "./cell-step.ts";
import { createCellSteps } from "./steps/cell-steps.ts";
import type { CellTools } from "./steps/step-context.ts";
import type { Cell, CellSpec, CellStatus } from "../state/cell.ts";
import { cellsOfPod } from "../state/cells-of-pod.ts";

interface Machine {
  readonly instance: Instance;
  report: PodReport | undefined;
  /** Functions that send the report to the connected kip processes. */
  readonly connected: Set<() => Promise<void>>;
}

/** State that survives a kill of kip: the API, the cloud and its machines. */
interface World {
  readonly cells: Map<string, Cell>;
  readonly machines: Map<string, Machine>;
  pod: Pod;
  /** How often the pod's container was started. */
  runs: number;
  /** Whether the API accepts statuses of the pod. */
  isStatusTaken: boolean;
  /** Whether the pod's deletion was requested. */
  isRemoved: boolean;
}

function newWorld(restartPolicy: string): World {
  const pod = podWith({
    metadata: { name: "job", uid: "p" },
    spec: { restartPolicy, containers: [{ name: "main", image: "i" }] },
    status: { phase: "Pending" },
  });
  return {
    cells: new Map(),
    machines: new Map(),
    pod,
    runs: 0,
    isStatusTaken: true,
    isRemoved: false,
  };
}

/** When to kill a process of kip: at this call to the outside, before or after its effect. */
interface Death {
  readonly atCall: number;
  readonly isBefore: boolean;
}

/** No time passes. */
const stillClock = new ManualClock(Date.parse("2026-01-01T00:00:00Z"));

/** Lets pending promises and immediates run. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 60; turn++) await setImmediate();
}

/** One process of kip, with its real provider, workers and steps. Only the connection to the agent is simulated. */
class Life {
  readonly provider: KipProvider;
  readonly #world: World;
  readonly #death: Death | undefined;
  #calls = 0;
  isDead = false;

  constructor(world: World, death?: Death) {
    this.#world = world;
    this.#death = death;
    const { cells } = world;
    const driver = {
      onTerminated: () => () => {},
      onInterruption: () => () => {},
      list: () => this.#call(() => [...world.machines.values()].map(({ instance }) => instance)),
      describe: (id: string) => this.#call(() => world.machines.get(id)?.instance),
      launch: ({ token }: { readonly token: string }) => this.#call(() => this.#launch(token)),
      terminate: (id: string) => this.#call(() => void world.machines.delete(id)),
      waitForTerminated: async () => {},
    };
    const store = {
      create: (spec: CellSpec) => this.#call(() => this.#create(spec)),
      writeStatus: (cell: Cell, status: CellStatus) =>
        this.#call(() => {
          const { name } = cell.metadata;
          const found = cells.get(name);
          if (found) cells.set(name, { ...found, status: { ...found.status, ...status } });
        }),
      markDeleted: ({ metadata: { name } }: Cell) =>
        this.#call(() => {
          const cell = cells.get(name);
          const deletionTimestamp = "2026-01-01T00:00:00Z";
          if (cell) cells.set(name, { ...cell, metadata: { ...cell.metadata, deletionTimestamp } });
        }),
      remove: (cell: Cell) => this.#call(() => void cells.delete(cell.metadata.name)),
      readPod: () => this.#call(() => (world.pod.status?.phase === "Succeeded" ? "ended" : "open")),
    };
    const parts = {
      driver,
      store,
      chooser: {
        choose: async ({ podRef, attempt, restartCounts }: CellRequest) => ({
          podRef,
          attempt,
          restartCounts,
        }),
        sizeOf: async () => undefined,
        extendedResourcesOf: () => new Map(),
      },
      identities: { issueForCell: async () => ({ identity: {}, expires: new Date(0) }) },
      metrics: new KipMetrics(),
      archive: { save: () => this.#call(() => {}), remove: async () => {}, pods: async () => [] },
      dns: async () => ({
        clusterDns: [],
        clusterDomain: "cluster.local",
        hostNameservers: [],
        hostSearchDomains: [],
      }),
      settings: () => ({ registries: [], seccompProfileRoot: "/nowhere" }),
      nodeIp: "192.0.2.1",
      onEvent: () => {},
      onProblem: () => {},
      limits: { bootMs: 1000, unreachableLimitMs: 1000, drainLeewayMs: 1000 },
      nodeFacts: { capacity: {}, internalIp: "192.0.2.1" },
      cells: {
        synced: Promise.resolve(),
        isSynced: true,
        list: () => [...cells.values()],
        ofPod: (podUid: string) => cellsOfPod([...cells.values()], podUid),
      },
      clock: stillClock,
      tracer: noTracer,
      logger: silentLogger,
    };
    const real = createCellSteps(parts as unknown as CellTools); // the methods that are called
    const steps: CellSteps = {
      outages: real.outages,
      executors: { ...real.executors, connect: async (_step, context) => this.#connect(context) },
      followAgent: async (client, follower) => await this.#follow(client, follower),
      noteReport: () => {},
      noteStatus: () => {},
      flush: async () => {},
    };
    const options = { ...parts, steps };
    this.provider = new KipProvider(options as unknown as KipProviderOptions); // the methods that are called
  }

  async start(): Promise<void> {
    await this.provider.start({
      podStatus: ({ status }) => this.#write(status),
      podEvent: () => {},
      nodeChanged: () => {},
    });
    const pod = structuredClone(this.#world.pod);
    const never = new AbortController().signal;
    if (this.#world.isRemoved) {
      this.provider.remove(pod, 0, never).catch(() => {}); // stopped
      return;
    }
    if (pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed") {
      this.provider.finish(pod, never).catch(() => {}); // stopped
      return;
    }
    const maps = { env: new Map(), lateEnv: new Map(), files: new Map() };
    await this.provider.apply({ pod, ...maps, pullSecrets: [] });
  }

  #write(status: PodStatus): void {
    const { pod, isStatusTaken } = this.#world;
    if (this.isDead || !isStatusTaken) return;
    if (pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed") return;
    this.#world.pod = { ...pod, status: structuredClone(status) };
  }

  /** Makes a call to the outside. A dead process gets no response. */
  async #call<T>(effect: () => T): Promise<T> {
    const isLast = ++this.#calls === this.#death?.atCall;
    if (isLast && this.#death?.isBefore) this.isDead = true;
    if (this.isDead) return await new Promise(() => {});
    const result = effect();
    if (isLast) this.isDead = true;
    if (this.isDead) return await new Promise(() => {});
    await setImmediate();
    return result;
  }

  #create(spec: CellSpec): Cell {
    const name = `cell-${spec.attempt}`;
    const cell = this.#world.cells.get(name) ?? {
      apiVersion: "kip.elotl.co/v1beta1",
      kind: "Cell",
      metadata: { name, uid: `${name}-${this.#world.machines.size}` },
      spec,
    };
    this.#world.cells.set(name, cell);
    return cell;
  }

  #launch(token: string): Instance {
    const id = `i-${token}`;
    const instance = {
      id,
      token,
      state: "running",
      podIp: "10.0.0.1",
      tags: {},
    } as unknown as Instance; // the fields that are read
    if (!this.#world.machines.has(id))
      this.#world.machines.set(id, { instance, report: undefined, connected: new Set() });
    return instance;
  }

  #connect({ state }: Pick<CellContext, "state">): CellChange {
    const machine = this.#world.machines.get(state().machine.instance?.id ?? "");
    assert.ok(machine, "the machine is there");
    const agent = {
      putPod: (document: DesiredPod) =>
        this.#call(() => {
          if (!machine.report) {
            this.#world.runs++;
            machine.report = report("Running");
            // The pod ends quickly.
            void sendAll(machine).then(async () => {
              machine.report = report("Succeeded");
              await sendAll(machine);
            });
          }
          return document.generation;
        }),
      deletePod: () => this.#call(() => {}),
      [Symbol.asyncDispose]: async () => {},
    };
    const client = agent as unknown as AgentClient; // the methods that are called
    return { kind: "connected", client, report: machine.report };
  }

  async #follow(client: AgentClient, { state, onReport }: AgentFollower): Promise<void> {
    const machine = this.#world.machines.get(state().machine.instance?.id ?? "");
    const send = async (): Promise<void> => {
      await setImmediate();
      const isPresent = !this.isDead && state().agent.client === client;
      if (isPresent && machine?.report) onReport(machine.report);
    };
    machine?.connected.add(send);
    await send();
  }
}

async function sendAll({ connected }: Machine): Promise<void> {
  for (const send of connected) await send();
}

function report(phase: "Running" | "Succeeded"): PodReport {
  const startedAt = "2026-01-01T00:00:00Z";
  const terminated = { exitCode: 0, reason: "Completed", startedAt, finishedAt: startedAt };
  const state = phase === "Running" ? { running: { startedAt } } : { terminated };
  const main = {
    name: "main",
    ready: false,
    started: false,
    restartCount: 0,
    image: "i",
    ...state,
  };
  return {
    podUid: "p",
    generation: 1,
    phase,
    startTime: startedAt,
    initContainers: [],
    containers: [main],
    ephemeralContainers: [],
    events: [],
    timingsMs: {},
  };
}

/** Runs processes of kip one after the other. The last one is not killed. Returns whether the first one was. */
async function live(
  world: World,
  deaths: readonly Death[],
  { isTaken, isLastKilled = false }: { readonly isTaken: boolean; readonly isLastKilled?: boolean },
): Promise<boolean> {
  let isFirstKilled: boolean | undefined;
  for (const death of isLastKilled ? deaths : [...deaths, undefined]) {
    world.isStatusTaken = isTaken || death === undefined;
    const life = new Life(world, death);
    await life.start();
    await settle();
    isFirstKilled ??= life.isDead;
    life.isDead = true;
    void life.provider.stop();
  }
  return isFirstKilled === true;
}

function assertSucceeded({ pod, runs, cells, machines }: World, where: string): void {
  const { phase, containerStatuses } = pod.status ?? {};
  assert.deepEqual([phase, runs], ["Succeeded", 1], where);
  assert.equal(containerStatuses?.[0]?.state?.terminated?.exitCode, 0, where);
  assert.deepEqual([cells.size, machines.size], [0, 0], where);
}

describe("a pod's life with kills of kip", () => {
  for (const policy of ["Never", "OnFailure"]) {
    for (const isTaken of [true, false]) {
      const api = isTaken ? "takes its status" : "takes no status of it for long";
      it(`runs once and has succeeded, whenever kip is killed, while the API ${api} (${policy})`, async () => {
        let isKilled = true;
        for (let atCall = 1; isKilled; atCall++) {
          assert.ok(atCall < 50, "the pod comes to its end");
          for (const isBefore of [true, false]) {
            const world = newWorld(policy);
            isKilled = await live(world, [{ atCall, isBefore }], { isTaken });
            assertSucceeded(world, `killed ${isBefore ? "before" : "after"} call ${atCall}`);
          }
        }
      });
    }
  }

  it("has succeeded also if it is removed after its end, whenever kip is killed", async () => {
    for (let first = 5; first < 12; first++) {
      for (let second = 1; second < 8; second++) {
        for (const isBefore of [true, false]) {
          const world = newWorld("OnFailure");
          await live(world, [{ atCall: first, isBefore }], { isTaken: false, isLastKilled: true });
          if (world.runs === 0) continue;
          world.isRemoved = true;
          await live(world, [{ atCall: second, isBefore }], { isTaken: false });
          assertSucceeded(world, `killed at calls ${first} and ${second} (${isBefore})`);
        }
      }
    }
  });

  it("runs once and has succeeded after any series of kills", async () => {
    const death = fc.record({ atCall: fc.integer({ min: 1, max: 8 }), isBefore: fc.boolean() });
    const deaths = fc.array(death, { minLength: 2, maxLength: 5 });
    await fc.assert(
      fc.asyncProperty(fc.constantFrom("Never", "OnFailure"), deaths, async (policy, series) => {
        const world = newWorld(policy);
        await live(world, series, { isTaken: false });
        assertSucceeded(world, JSON.stringify(series));
      }),
      { numRuns: 20 },
    );
  });
});

describe("a pod's life with two kips of one name", () => {
  for (const policy of ["Never", "OnFailure"]) {
    for (const isTaken of [true, false]) {
      const api = isTaken ? "takes its status" : "takes no status of it for long";
      it(`runs once and has succeeded, whichever is killed, while the API ${api} (${policy})`, async () => {
        for (const turnsBetween of [0, 1, 3, 8, 20])
          for (let atCall = 1; atCall < 25; atCall++)
            for (const isBefore of [true, false])
              for (const deaths of [[{ atCall, isBefore }], [undefined, { atCall, isBefore }]])
                await liveTogether(newWorld(policy), deaths, { isTaken, turnsBetween });
      });
    }
  }
});

/** Runs two processes of kip at once, one of which may be killed, and then one alone. */
async function liveTogether(
  world: World,
  [first, second]: readonly (Death | undefined)[],
  { isTaken, turnsBetween }: { readonly isTaken: boolean; readonly turnsBetween: number },
): Promise<void> {
  world.isStatusTaken = isTaken;
  const both = [new Life(world, first), new Life(world, second)];
  for (const life of both) {
    await life.start();
    for (let turn = 0; turn < turnsBetween; turn++) await setImmediate();
  }
  await settle();
  for (const life of both) life.isDead = true;
  world.isStatusTaken = true;
  const last = new Life(world);
  await last.start();
  await settle();
  assertSucceeded(world, JSON.stringify({ first, second, turnsBetween }));
  for (const life of [...both, last]) void life.provider.stop();
}

import { setImmediate } from "node:timers/promises";
import { createSimulatedCloud, type SimulatedCloud } from "@kip/cloud/simulated";
import type { CloudDriver, Instance } from "@kip/cloud";
import { ignoreNotFound, paths } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import { isStandby } from "../../state/cell.ts";
import type { MovableClock } from "../kip-life.ts";
import { ApiServer } from "./api-server.ts";
import type { CallFault, Target } from "./gate.ts";
import { KipProcess, nodeName, type ProcessWorld } from "./kip-process.ts";
import { Machines, type Machine } from "./machines.ts";
import { Quotas } from "./quotas.ts";
import { release, StoppedInstances } from "./other-clients.ts";

/** The Secret of pods that need one. */
const secretName = "variables";
/** How long an instance takes to end, milliseconds. */
export const stopMs = 3000;
/** How long until a process that has ended is restarted, milliseconds. */
const restartMs = 2000;
/** Maximum length of one time step, milliseconds. */
const stepMs = 1000;

/** Options of the world. */
export interface WorldOptions {
  /** Seed of all random numbers. */
  readonly seed: number;
  /** How far the cloud's lists lag behind, milliseconds. */
  readonly lagMs: number;
  /** Maximum duration of calls to the cloud, milliseconds. */
  readonly callMs: number;
  /** Number of kips, of which one at a time works. */
  readonly replicas: number;
  /** Whether cells count as running if the cloud says so. @default false */
  readonly isCloudAsked?: boolean;
  /** The quota of the cloud. @default none */
  readonly maxInstances?: number;
}

/** A replica of kip, which has one process after the other. */
interface Replica {
  process: KipProcess;
  /** When it is restarted, monotonic milliseconds. */
  restartAtMs: number | undefined;
}

/** A pod as its creator specifies it. */
export interface PodWish {
  readonly policy: "Never" | "OnFailure" | "Always";
  readonly cpu: "100m" | "1500m";
  readonly graceSeconds: number;
  /** Whether it ignores the stop signal. */
  readonly isDeaf: boolean;
  /** The annotation with the allowed launch types. @default none */
  readonly launchType?: "spot" | "spot-or-on-demand" | undefined;
  /** Whether it waits for a Secret, see {@link FaultWorld.setSecret}. @default false */
  readonly needsSecret?: boolean | undefined;
  /** How long it may be active, seconds. Agents here do not end pods, so only waiting ends. @default without limit */
  readonly deadlineSeconds?: number | undefined;
}

/** The facts about a pod as seen from outside of kip. */
export interface PodFacts {
  readonly uid: string;
  readonly name: string;
  readonly policy: PodWish["policy"];
  /** How often its container was started. */
  runs: number;
  /** Tokens of the instances on which it was started. */
  readonly machines: Set<string>;
  /** How its container has ended by itself, for good. */
  exitCode: number | undefined;
  /** When it had ended, monotonic milliseconds: by itself, in the API, or after its grace period. */
  endedAtMs: number | undefined;
}

/** The API server, the cloud with its machines, and the present processes of kip. */
export class FaultWorld implements ProcessWorld {
  readonly clock: MovableClock;
  readonly api: ApiServer;
  readonly cloud: SimulatedCloud;
  readonly machines: Machines;
  readonly quotas: Quotas;
  readonly pods = new Map<string, PodFacts>();
  readonly #mistakes: string[] = [];
  /** Counts of what has happened. */
  readonly figures = { pods: 0, runs: 0, processes: 0, faults: 0 };
  readonly #podOfCell = new Map<string, string>();
  /** UIDs of pods and Cells affected by something that may move or end the pod. */
  readonly #touched = new Set<string>();
  #agentsAwayMs = 0;
  readonly #owner: CloudDriver;
  readonly #faults: CallFault[] = [];
  readonly #awayUntilMs = new Map<Target, number>();
  readonly #replicas: Replica[] = [];
  readonly #stopped = new StoppedInstances();
  /** Pods that are created again once they are gone, by name. */
  readonly #again = new Map<string, PodWish>();
  readonly #wishes = new Map<string, PodWish>();
  #disturbedAtMs = 0;
  #skewMs = 0;
  #standby = 0;
  #pods = 0;
  /** Since when instances have had no Cell, by ID. */
  readonly #orphanSince = new Map<string, number>();

  constructor(
    clock: MovableClock,
    { seed, lagMs, callMs, replicas, isCloudAsked = false, maxInstances }: WorldOptions,
  ) {
    this.clock = clock;
    this.api = new ApiServer(clock);
    this.machines = new Machines({
      clock,
      onRun: (uid, machine) => this.#ran(uid, machine),
      onExit: (uid, exitCode) => {
        const pod = this.pods.get(uid);
        if (pod) pod.exitCode = exitCode;
      },
    });
    this.cloud = createSimulatedCloud({
      clock,
      seed,
      lagMs,
      callMs: { minMs: 0, maxMs: callMs },
      startMs: { minMs: 500, maxMs: 4000 },
      stopMs,
      images: { cell: 2 ** 30 },
      maxInstances,
      boot: ({ instance }) => this.machines.boot(instance),
    });
    this.#owner = this.cloud.open({ owner: "kip" });
    this.quotas = new Quotas(this.#owner);
    this.isReplicated = replicas > 1;
    this.isCloudAsked = isCloudAsked;
    for (let index = 0; index < replicas; index++)
      this.#replicas.push({ process: new KipProcess(this), restartAtMs: undefined });
  }

  // The environment of a process of kip

  readonly isReplicated: boolean;
  readonly isCloudAsked: boolean;

  readonly openDriver = (): CloudDriver =>
    this.quotas.keptBy(this.#stopped.seenBy(this.cloud.open({ owner: "kip" })));
  readonly skewMs = (): number => this.#skewMs;
  readonly standby = (): number => this.#standby;

  isAway(target: Target): boolean {
    const isAway = this.clock.monotonic() < (this.#awayUntilMs.get(target) ?? 0);
    if (isAway) this.disturbed();
    return isAway;
  }

  takeFault(target: Target): CallFault | undefined {
    const index = this.#faults.findIndex((each) => each.target === target);
    const fault = this.#faults[index];
    if (!fault) return undefined;
    if (fault.skip > 0) {
      this.#faults[index] = { ...fault, skip: fault.skip - 1 };
      return undefined;
    }
    if (fault.calls > 1) this.#faults[index] = { ...fault, calls: fault.calls - 1 };
    else this.#faults.splice(index, 1);
    this.figures.faults++;
    return fault;
  }

  disturbed(): void {
    this.#disturbedAtMs = this.clock.monotonic();
  }

  // Operations

  /** The process of a replica, or the only process. */
  processOf(replica: number): KipProcess {
    const found = this.#replicas[replica % this.#replicas.length];
    if (!found) throw new RangeError("No process of kip runs");
    return found.process;
  }

  addFault(fault: CallFault): void {
    this.#faults.push(fault);
  }

  /** Records that something affects this pod, or this Cell or its machine, that may move or end the pod. */
  touch(uid: string): void {
    this.#touched.add(uid);
  }

  /** Whether nothing has affected a pod that may move or end it. */
  isUntouched({ uid }: PodFacts): boolean {
    const cells = [...this.#podOfCell].filter(([, podUid]) => podUid === uid).map(([cell]) => cell);
    // Agents that were away for long enough count as lost.
    return this.#agentsAwayMs < 60_000 && ![uid, ...cells].some((each) => this.#touched.has(each));
  }

  takeAway(target: Target, ms: number): void {
    if (target === "agent") this.#agentsAwayMs += ms;
    this.#awayUntilMs.set(target, this.clock.monotonic() + ms);
    this.disturbed();
  }

  /** Another client of the cloud stops an instance. */
  stopInstance(machine: Machine): void {
    this.#stopped.stop(machine);
  }

  /** Creates a pod again with its name once it is gone, like a StatefulSet. */
  makeAgain(name: string): void {
    const wish = this.#wishes.get(name);
    if (wish) this.#again.set(name, wish);
  }

  /** Sets the clock of kip's computer. */
  skew(ms: number): void {
    this.#skewMs = ms;
    this.disturbed();
  }

  /** Creates or deletes the Secret of pods that need it. */
  async setSecret(isThere: boolean): Promise<void> {
    const { client } = this.api;
    const secrets = paths.secrets("default");
    if (!isThere) return void (await ignoreNotFound(client.delete(`${secrets}/${secretName}`)));
    const found = await ignoreNotFound(client.get(`${secrets}/${secretName}`));
    if (found) return;
    const metadata = { name: secretName };
    await client.create(secrets, { apiVersion: "v1", kind: "Secret", metadata, data: {} });
  }

  setStandby(count: number): void {
    this.#standby = count;
    for (const { process } of this.#replicas) process.reconfigure();
  }

  /** Ends all faults, except for their past effects. */
  async heal(): Promise<void> {
    this.#faults.length = 0;
    this.#awayUntilMs.clear();
    this.api.isSilent = false;
    await this.cloud.faults.clear();
    this.quotas.clear();
    await release(this.api, this.api.stored());
    await this.setSecret(true);
    for (const machine of this.machines.all())
      if (!this.#stopped.has(machine)) machine.setReachable(true);
    this.disturbed();
  }

  async createPod(
    wish: PodWish,
    name = `${wish.isDeaf ? "deaf" : "pod"}-${++this.#pods}`,
  ): Promise<void> {
    const { policy, cpu, graceSeconds, launchType, needsSecret = false, deadlineSeconds } = wish;
    const annotations = launchType && { "pod.elotl.co/launch-type": launchType };
    this.#wishes.set(name, wish);
    const envFrom = needsSecret ? [{ secretRef: { name: secretName } }] : [];
    const containers = [{ name: "main", image: "i", resources: { requests: { cpu } }, envFrom }];
    const { metadata } = await this.api.client.create<Pod>(paths.pods("default"), {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name, ...(annotations && { annotations }) },
      spec: {
        nodeName,
        restartPolicy: policy,
        terminationGracePeriodSeconds: graceSeconds,
        ...(deadlineSeconds !== undefined && { activeDeadlineSeconds: deadlineSeconds }),
        containers,
      },
      status: { phase: "Pending" },
    });
    const { uid } = metadata;
    if (deadlineSeconds !== undefined) this.touch(uid);
    this.figures.pods++;
    this.pods.set(uid, {
      uid,
      name,
      policy,
      runs: 0,
      machines: new Set(),
      exitCode: undefined,
      endedAtMs: undefined,
    });
  }

  /** Lets time pass. A dead kip is restarted after some seconds. */
  async pass(ms: number, step = stepMs): Promise<void> {
    await this.settle();
    for (let left = ms; left > 0; left -= step) {
      await this.clock.advance(Math.min(left, step));
      await this.settle();
    }
  }

  /** Lets pending work run. */
  async settle(): Promise<void> {
    for (let turn = 0; turn < 25; turn++) await setImmediate();
    await this.#recreate();
    this.#restartDead();
    this.#note();
  }

  async #recreate(): Promise<void> {
    if (this.#again.size === 0) return;
    const names = new Set(this.api.pods().map(({ metadata }) => metadata.name));
    for (const [name, wish] of this.#again) {
      if (names.has(name)) continue;
      this.#again.delete(name);
      await this.createPod(wish, name);
    }
  }

  /** Ends everything. */
  async stop(): Promise<void> {
    for (const { process } of this.#replicas) process.gate.kill();
    await this.#owner[Symbol.asyncDispose]();
  }

  #restartDead(): void {
    const now = this.clock.monotonic();
    if (!this.#replicas.some(({ process }) => process.isReady)) this.disturbed();
    for (const replica of this.#replicas) {
      if (!replica.process.gate.isDead) continue;
      replica.restartAtMs ??= now + restartMs;
      if (now < replica.restartAtMs) continue;
      replica.restartAtMs = undefined;
      replica.process = new KipProcess(this);
      this.figures.processes++;
    }
  }

  // Observations

  /** Violations of rules that must always hold. */
  get mistakes(): readonly string[] {
    return [...this.#mistakes, ...this.api.mistakes];
  }

  /** Instances that currently cost money, as the cloud lists them. */
  async instances(): Promise<readonly Instance[]> {
    return await this.#owner.list();
  }

  #ran(uid: string, machine: Machine): void {
    const others = this.machines.all().filter((each) => each !== machine && each.runs === uid);
    const pod = this.pods.get(uid);
    const name = pod?.name ?? uid;
    if (others.length > 0) this.#mistakes.push(`${name} runs on two machines`);
    if (!pod) return;
    pod.runs++;
    pod.machines.add(machine.instance.token);
    this.figures.runs++;
    const { phase, reason } =
      this.api.pods().find(({ metadata }) => metadata.uid === uid)?.status ?? {};
    if (phase === "Failed" && reason === "DeadlineExceeded")
      this.#mistakes.push(`${name} runs although it has exceeded its deadline`);
    if (pod.policy === "Never" && pod.runs > 1) this.#mistakes.push(`${name} runs again`);
  }

  /** Records the current state. */
  #note(): void {
    const now = this.clock.monotonic();
    const cells = this.api.cells();
    for (const cell of cells)
      if (!isStandby(cell)) this.#podOfCell.set(cell.metadata.uid, cell.spec.podRef.uid);
    const stored = new Map(this.api.pods().map((pod) => [pod.metadata.uid, pod]));
    for (const pod of this.pods.values())
      // If a pod ends on a machine that is lost before kip knows of the end, it runs again.
      if (this.#isOver(pod, stored.get(pod.uid))) pod.endedAtMs ??= now;
      else pod.endedAtMs = undefined;
    const isCut = (each: Machine): boolean => !each.isReachable && !this.#stopped.has(each);
    if (this.api.isSilent || this.machines.all().some(isCut)) this.disturbed();
    const tokens = new Set(cells.map(({ metadata }) => metadata.uid));
    for (const { instance } of this.machines.all()) {
      if (tokens.has(instance.token)) this.#orphanSince.delete(instance.id);
      else if (!this.#orphanSince.has(instance.id)) this.#orphanSince.set(instance.id, now);
      this.#checkCost(instance, now);
    }
  }

  #isOver({ uid }: PodFacts, pod: Pod | undefined): boolean {
    const phase = pod?.status?.phase;
    if (!pod || phase === "Succeeded" || phase === "Failed") return true;
    const { deletionTimestamp } = pod.metadata;
    if (deletionTimestamp !== undefined && this.clock.now() >= Date.parse(deletionTimestamp))
      return true;
    return this.machines.all().some((machine) => machine.pod?.uid === uid && machine.hasEnded);
  }

  /** Checks that nothing costs money for longer than a minute after it is needed, without faults in that time. */
  #checkCost(instance: Instance, now: number): void {
    const podUid = this.#podOfCell.get(instance.token);
    const ended = podUid === undefined ? undefined : this.pods.get(podUid)?.endedAtMs;
    const useless = Math.min(ended ?? Infinity, this.#orphanSince.get(instance.id) ?? Infinity);
    const since = Math.max(useless, this.#disturbedAtMs);
    if (now - since <= costLimitMs) return;
    const about = `${instance.name} of ${this.pods.get(podUid ?? "")?.name ?? "no pod"}`;
    const [past, calm] = [useless, this.#disturbedAtMs].map((ms) => Math.round((now - ms) / 1000));
    const what = `${about} costs money ${past} s after its use, ${calm} s after the last fault`;
    if (!this.#mistakes.some((each) => each.startsWith(about))) this.#mistakes.push(what);
  }
}

/** A minute, plus the time in which an instance ends. */
const costLimitMs = 60_000 + stopMs + 2 * stepMs;

import { setImmediate } from "node:timers/promises";
import { silentLogger, type Clock } from "@kip/base";
import type { CloudDriver, Instance } from "@kip/cloud";
import { createSimulatedCloud, type SimulatedCloud } from "@kip/cloud/simulated";
import { K8sError } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import { podWith } from "@kip/k8s-types/testing";
import { createCellSteps } from "../cell/steps/cell-steps.ts";
import type { CellTools } from "../cell/steps/step-context.ts";
import type { PodStatusUpdate } from "@kip/virtual-kubelet";
import { noTracer } from "@kip/virtual-kubelet/telemetry";
import { KipMetrics } from "../metrics/kip-metrics.ts";
import { KipProvider, type KipProviderOptions } from "../provider.ts";
import { CellChooser } from "../selection/cell-chooser.ts";
import type { StandbyPool } from "../selection/standby-spec.ts";
import { StandbyCells } from "../standby/standby-cells.ts";
import { isStandby, type Cell } from "../state/cell.ts";
import { cellsOfPod } from "../state/cells-of-pod.ts";
import { CellStore } from "../store/cell-store.ts";
import { FakeAgents } from "./fake-agents.ts";
import { FakeCellsApi, type CellEvent, type StoredCell } from "./fake-cells-api.ts";

/** Lets pending promises and immediates run. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 60; turn++) await setImmediate();
}

/** Root disk size for pods that do not specify one, bytes. */
export const defaultDiskBytes = 2 ** 30;

/** A clock that a test advances. */
export interface MovableClock extends Clock {
  advance(ms: number): Promise<void>;
}

/** What survives a kill of kip: the API, the cloud with its machines and agents, and the configuration. */
export class KipWorld {
  readonly clock: MovableClock;
  readonly api = new FakeCellsApi();
  readonly agents: FakeAgents;
  readonly cloud: SimulatedCloud;
  readonly driver: CloudDriver;
  /** By UID. */
  readonly pods = new Map<string, Pod>();
  pools: readonly StandbyPool[] = [];
  /** Filters the instances that processes of kip get when they list them. */
  listed = (instances: readonly Instance[]): readonly Instance[] => instances;
  /** IDs of instances that have ended without a report: the cloud no longer has them. */
  readonly ended = new Set<string>();
  /** Whether cells count as running if the cloud says so. */
  isCloudAsked = false;
  /** Image of all cells, from now on. */
  image = "cell";
  /** Writes that a process had sent when it was killed, and that take effect later. */
  readonly late: (() => void)[] = [];

  /** @param stopMs how long instances take to end, milliseconds */
  constructor(clock: MovableClock, stopMs = 0) {
    this.clock = clock;
    this.agents = new FakeAgents(clock);
    this.cloud = createSimulatedCloud({
      clock,
      startMs: 1000,
      stopMs,
      images: { cell: defaultDiskBytes, newer: defaultDiskBytes },
      boot: ({ instance }) => this.agents.boot(instance),
    });
    this.driver = this.cloud.open({ owner: "kip" });
  }

  addPod(uid: string, cpu: string, annotations: Readonly<Record<string, string>> = {}): void {
    const creationTimestamp = new Date(this.clock.now()).toISOString();
    const containers = [{ name: "main", image: "i", resources: { requests: { cpu } } }];
    const metadata = { name: uid, uid, creationTimestamp, annotations };
    this.pods.set(uid, podWith({ metadata, spec: { containers } }));
  }
}

/** Lets time pass, together with all of its effects. */
export async function pass({ clock }: KipWorld, ms: number, stepMs = 1000): Promise<void> {
  await settle();
  for (let left = ms; left > 0; left -= stepMs) {
    await clock.advance(Math.min(left, stepMs));
    await settle();
  }
}

/** A pool with a number of standby cells of one type of the simulated cloud. */
export function poolOf(instanceType: string, count: number): StandbyPool {
  const others = { zone: undefined, privateIPOnly: undefined, bootImage: undefined };
  return { instanceType, count, launchType: "on-demand", ...others };
}

/** A fault of a call to the outside, which takes effect never, before the fault, or long after. */
export interface Mishap {
  /** The number of the call in a process. */
  readonly atCall: number;
  readonly effect: "none" | "done" | "late";
  /** Whether the process dies. Otherwise it gets an error. */
  readonly isDeath: boolean;
}

/** What happens to a process of kip, and its limits. */
export interface Fate {
  /** @default none */
  readonly mishap?: Mishap | undefined;
  /** How many turns of the event loop its watch lags behind. @default 1 */
  readonly watchLag?: number | undefined;
  /** How long an agent may take to answer for the first time, milliseconds. @default 60,000 */
  readonly bootMs?: number | undefined;
}

/** One process of kip, with its real provider, standby cells, steps and store. */
export class KipLife {
  readonly provider: KipProvider;
  readonly standby: StandbyCells;
  /** Reasons and messages of the pods' events. */
  readonly events: string[] = [];
  /** Statuses of the pods in the order of publication, without repetitions. */
  readonly statuses: PodStatusUpdate[] = [];
  readonly #world: KipWorld;
  readonly #steps: ReturnType<typeof createCellSteps>;
  readonly #fate: Fate;
  readonly #seen = new Map<string, StoredCell>();
  readonly #connections: (() => void)[] = [];
  readonly #stopWatching: () => void;
  #calls = 0;
  #isDead = false;

  constructor(world: KipWorld, fate: Fate = {}) {
    this.#world = world;
    this.#fate = fate;
    const { clock, agents, api } = world;
    const driver = this.#mortal(world.driver);
    const limits = {
      bootMs: fate.bootMs ?? 60_000,
      unreachableLimitMs: 30_000,
      isCloudAsked: world.isCloudAsked,
      drainLeewayMs: 1000,
    };
    const chooser = new CellChooser(driver, () => ({
      nodeName: "kip",
      controllerID: "kip",
      defaultInstanceType: undefined,
      defaultVolumeBytes: defaultDiskBytes,
      imageSpec: { name: world.image },
      privateIPOnly: true,
    }));
    const store = new CellStore(api.client((effect) => this.#call(effect)));
    Object.assign(store, { readPod: async () => "open" });
    const common = { driver, store, chooser, limits, clock, logger: silentLogger };
    this.standby = new StandbyCells({ ...common, pools: () => world.pools });
    const note = (_uid: string, reason: string, message: string): void =>
      void this.events.push(`${reason}: ${message}`);
    const expires = (): Date => new Date(clock.now() + 7 * 86_400_000);
    const tools = {
      ...common,
      clusterID: "kip",
      metrics: new KipMetrics(),
      tracer: noTracer,
      standby: this.standby,
      dial: agents.dialer(
        (effect) => this.#call(effect),
        (close) => void this.#connections.push(close),
      ),
      identities: {
        issueForCell: async () => ({ identity: {}, expires: expires() }),
        clientPair: async () => ({ certificate: "", key: "" }),
      },
      archive: { remove: async () => {}, pods: async () => [] },
      dns: async () => ({
        clusterDns: [],
        clusterDomain: "cluster.local",
        hostNameservers: [],
        hostSearchDomains: [],
      }),
      settings: () => ({ registries: [], seccompProfileRoot: "/nowhere" }),
      onEvent: note,
      onProblem: note,
    };
    this.#steps = createCellSteps(tools as unknown as CellTools); // the methods that are called
    const cellsWithPods = (): readonly Cell[] =>
      [...this.#seen.values()].flatMap((cell) => (isStandby(cell) ? [] : [cell]));
    const options = {
      ...tools,
      steps: this.#steps,
      nodeFacts: { capacity: {}, internalIp: "192.0.2.1" },
      cells: {
        synced: Promise.resolve(),
        isSynced: true,
        list: cellsWithPods,
        ofPod: (podUid: string) => cellsOfPod(cellsWithPods(), podUid),
      },
    };
    this.provider = new KipProvider(options as unknown as KipProviderOptions); // the methods that are called
    let last = Promise.resolve();
    const watcher = (event: CellEvent): void => void (last = last.then(() => this.#watch(event)));
    api.watchers.add(watcher);
    this.#stopWatching = () => void api.watchers.delete(watcher);
  }

  get isDead(): boolean {
    return this.#isDead;
  }

  /** Starts like kip does, with the existing Cells and pods. */
  async start(): Promise<void> {
    const { api, pods } = this.#world;
    for (const cell of api.cells.values()) this.#seen.set(cell.metadata.uid, cell);
    await this.provider.start({
      podStatus: (update) => {
        if (JSON.stringify(update) !== JSON.stringify(this.statuses.at(-1)))
          this.statuses.push(update);
      },
      podEvent: ({ reason, message }) => void this.events.push(`${reason}: ${message}`),
      nodeChanged: () => {},
    });
    this.standby.start(this.#steps.standby, [...this.#seen.values()]);
    for (const uid of pods.keys()) this.apply(uid);
    await this.sweep();
  }

  /** The pod should run. */
  apply(uid: string): void {
    const pod = this.#world.pods.get(uid);
    const maps = { env: new Map(), lateEnv: new Map(), files: new Map() };
    if (pod && !this.#isDead) void this.provider.apply({ pod, ...maps, pullSecrets: [] });
  }

  /** Removes pods that the API no longer has, like the virtual kubelet does at times. */
  async sweep(): Promise<void> {
    if (this.#isDead) return;
    for (const { uid } of await this.provider.list())
      if (!this.#world.pods.has(uid)) this.provider.removeUnknown(uid).catch(() => {}); // stopped
  }

  /** Ends the process and its connections. */
  async kill(): Promise<void> {
    this.#isDead = true;
    this.#stopWatching();
    for (const close of this.#connections) close();
    void this.provider.stop();
    void this.standby.stop();
    await settle();
  }

  /** Delivers a watch event late. */
  async #watch({ type, cell }: CellEvent): Promise<void> {
    const { watchLag = 1 } = this.#fate;
    for (let turn = 0; turn < watchLag; turn++) await setImmediate();
    if (this.#isDead) return;
    const { uid } = cell.metadata;
    if (type === "deleted") {
      this.#seen.delete(uid);
      this.standby.cellGone(cell);
      this.provider.cellGone(cell);
    } else {
      this.#seen.set(uid, cell);
      this.standby.cellSeen(cell);
      if (!isStandby(cell)) this.provider.cellChanged(cell);
    }
  }

  #mortal(driver: CloudDriver): CloudDriver {
    return new Proxy(driver, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== "function") return value;
        const isEvent = String(name).startsWith("on");
        return (...args: readonly unknown[]): unknown => {
          if (isEvent) return this.#subscribe(target, value, args);
          const { listed, ended } = this.#world;
          if (name === "list")
            return this.#call(async () =>
              listed(await target.list()).filter(({ id }) => !ended.has(id)),
            );
          if (name === "describe" && ended.has(String(args[0]))) return this.#call(() => undefined);
          return this.#call<unknown>(() => Reflect.apply(value, target, args));
        };
      },
    });
  }

  /** Subscribes to the driver. A dead process gets no events. */
  #subscribe(target: CloudDriver, on: Function, [callback]: readonly unknown[]): unknown {
    const deliver = (value: unknown): void => {
      if (!this.#isDead) (callback as (value: unknown) => void)(value);
    };
    return Reflect.apply(on, target, [deliver]);
  }

  /** Makes a call to the outside. A dead process gets no response. */
  async #call<T>(effect: () => T | Promise<T>): Promise<T> {
    const never = async (): Promise<never> => await new Promise(() => {});
    if (this.#isDead) return await never();
    const { mishap } = this.#fate;
    if (++this.#calls === mishap?.atCall) {
      this.#isDead = mishap.isDeath;
      const withoutResponse = (): void =>
        void Promise.resolve()
          .then(effect)
          .catch(() => {});
      if (mishap.effect === "late") this.#world.late.push(withoutResponse);
      if (mishap.effect === "done") withoutResponse();
      if (this.#isDead) return await never();
      await setImmediate();
      throw new K8sError("K8S_UNAVAILABLE", "no answer", { retryable: true });
    }
    const outcome = await Promise.resolve()
      .then(effect)
      .then(
        (value) => () => value,
        (error: unknown) => () => {
          throw error;
        },
      );
    if (this.#isDead) return await never();
    await setImmediate();
    return outcome();
  }
}

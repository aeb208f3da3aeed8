import { silentLogger, untilAborted } from "@kip/base";
import { CloudError, type CloudDriver, type LaunchRequest } from "@kip/cloud";
import {
  createSimulatedCloud,
  type SimulatedCloud,
  type SimulatedCloudOptions,
} from "@kip/cloud/simulated";
import type { PodStatus } from "@kip/k8s-types";
import { podWith } from "@kip/k8s-types/testing";
import type { ResolvedPod } from "@kip/virtual-kubelet";
import { noTracer } from "@kip/virtual-kubelet/telemetry";
import { CellWorker } from "../cell/cell-worker.ts";
import { createCellSteps } from "../cell/steps/cell-steps.ts";
import type { CellSettings, CellTools } from "../cell/steps/step-context.ts";
import { CellChooser } from "../selection/cell-chooser.ts";
import { cellName, type Cell, type CellSpec } from "../state/cell.ts";
import { settle, type MovableClock } from "./kip-life.ts";

/** When to kill kip: at this call of the API or the cloud, before or after its effect. */
interface LaunchDeath {
  readonly atCall: number;
  readonly isBefore: boolean;
}

/** The API and the simulated cloud, which survive kills of kip. */
export class LaunchWorld {
  readonly clock: MovableClock & { readonly sleepers: number };
  readonly cloud: SimulatedCloud;
  readonly cells = new Map<string, Cell>();
  /** Maximum number of instances that ran at the same time. */
  most = 0;
  /** Launch types whose quota is full. */
  refuses: RegExp | undefined;
  /** Largest disk of an instance, bytes. A launch with a larger one can never succeed. */
  mostDiskBytes = Infinity;
  /** Name of the cells' image. */
  image = "cell";
  /** Type for pods without requests. */
  defaultType: string | undefined;
  /** How many more machines there is capacity for. */
  room = Infinity;
  /** The part of the configuration that steps use. */
  settings: Pick<CellSettings, "registries"> = { registries: [] };
  /** UID of a pod whose launches get no answer. */
  stuck: string | undefined;
  /** Zones of the cloud. The cloud's own one if undefined. */
  zones: readonly string[] | undefined;
  /** Resolves when requests for new Cells no longer wait for others. */
  sendable: Promise<void> | undefined;
  /** Resolves when Cells can be removed. */
  removable: Promise<void> | undefined;
  /** How often a Cell was created. */
  created = 0;
  #uids = 0;

  constructor(clock: LaunchWorld["clock"], options: SimulatedCloudOptions = {}) {
    this.clock = clock;
    this.cloud = createSimulatedCloud({ ...options, clock: this.clock });
  }

  async count(cloud: CloudDriver): Promise<void> {
    this.most = Math.max(this.most, (await cloud.list()).length);
  }

  create(spec: CellSpec): Cell {
    this.created += 1;
    const name = cellName(spec.podRef.uid, spec.attempt);
    const metadata = { name, uid: `${name}-${++this.#uids}` };
    const written = { apiVersion: "kip.elotl.co/v1beta1", kind: "Cell", metadata, spec } as const;
    const cell = this.cells.get(name) ?? written;
    this.cells.set(name, cell);
    return cell;
  }
}

interface AskedPod {
  readonly cpu?: string;
  /** Seconds since its creation. */
  readonly age?: number;
  readonly annotations?: Readonly<Record<string, string>>;
  /** As recorded in the API. */
  readonly status?: PodStatus;
}

/** One process of kip, with real workers, steps and chooser. Its cells have no agents. */
export class LaunchLife {
  readonly #world: LaunchWorld;
  readonly #death: LaunchDeath | undefined;
  readonly #steps: ReturnType<typeof createCellSteps>;
  readonly events: string[] = [];
  readonly #workers = new Map<string, CellWorker>();
  #calls = 0;
  #isDead = false;

  constructor(world: LaunchWorld, death?: LaunchDeath) {
    this.#world = world;
    this.#death = death;
    const { cells, clock } = world;
    const driver = this.#mortal(world.cloud.open({ owner: "kip" }));
    const tools = {
      driver,
      store: {
        create: (spec: CellSpec, _labels: unknown, unsentSignal: AbortSignal) =>
          this.#call(async () => {
            if (world.sendable) await untilAborted(world.sendable, unsentSignal);
            return world.create(spec);
          }),
        writeStatus: async () => {},
        markDeleted: async () => {},
        remove: ({ metadata }: Cell) =>
          this.#call(async () => {
            await world.removable;
            cells.delete(metadata.name);
          }),
      },
      chooser: new CellChooser(driver, () => ({
        nodeName: "kip",
        controllerID: "kip",
        defaultInstanceType: world.defaultType,
        defaultVolumeBytes: 2 ** 30,
        imageSpec: { name: world.image },
        privateIPOnly: true,
      })),
      identities: { issueForCell: async () => ({ identity: {}, expires: new Date(0) }) },
      clusterID: "kip",
      knownImages: { imagesOf: () => undefined },
      onEvent: (podUid: string, reason: string) => this.events.push(`${podUid} ${reason}`),
      onProblem: (podUid: string, reason: string) => this.events.push(`${podUid} ${reason}`),
      settings: () => world.settings,
      clock,
      tracer: noTracer,
      logger: silentLogger,
    };
    const real = createCellSteps(tools as unknown as CellTools); // the methods that are called
    const connect: typeof real.executors.connect = async (_step, { signal }) =>
      await untilAborted(new Promise(() => {}), signal);
    this.#steps = { ...real, executors: { ...real.executors, connect } };
  }

  get isDead(): boolean {
    return this.#isDead;
  }

  /** Runs a pod that requests this much CPU. */
  run(uid: string, asked: AskedPod = {}): CellWorker {
    const { clock, cells } = this.#world;
    const worker = new CellWorker({
      podRef: { namespace: "default", name: uid, uid },
      nodeIp: "192.0.2.1",
      steps: this.#steps,
      limits: { bootMs: 1e9, unreachableLimitMs: 1e9, drainLeewayMs: 1000 },
      clock,
      logger: silentLogger,
      onChange: () => {},
      onReport: () => {},
      onEvent: (_type, reason) => this.events.push(`${uid} waits: ${reason}`),
    });
    this.#workers.set(uid, worker);
    worker.cellSeen([...cells.values()].find(({ spec }) => spec.podRef.uid === uid));
    worker.apply(this.resolved(uid, asked));
    return worker;
  }

  resolved(
    uid: string,
    { cpu = "100m", age = 0, annotations = {}, status }: AskedPod,
  ): ResolvedPod {
    const creationTimestamp = new Date(Date.UTC(2026, 0, 1) - age * 1000).toISOString();
    const containers = [{ name: "main", resources: { requests: { cpu } } }];
    const pod = podWith({
      metadata: { uid, annotations, creationTimestamp },
      spec: { containers },
      ...(status && { status }),
    });
    const maps = { env: new Map(), lateEnv: new Map(), files: new Map() };
    return { pod, ...maps, pullSecrets: [] };
  }

  async kill(): Promise<void> {
    this.#isDead = true;
    for (const worker of this.#workers.values()) void worker.stop();
    await settle();
  }

  /** Types of each pod's instances, and what each pod is waiting for. */
  async machines(): Promise<readonly string[]> {
    const instances = await this.#world.cloud.open({ owner: "kip" }).list();
    return instances
      .map(({ tags, instanceType }) => `${tags["kip-pod-uid"]} ${instanceType}`)
      .sort();
  }

  why(uid: string): string | undefined {
    return this.#workers.get(uid)?.state.wait.reason?.message;
  }

  #mortal(driver: CloudDriver): CloudDriver {
    return new Proxy(driver, {
      get: (target, name) => {
        if (name === "zones") return this.#world.zones;
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== "function") return value;
        return (...args: readonly unknown[]) =>
          this.#call(async () => {
            const [request] = args as readonly Partial<LaunchRequest>[];
            if (name === "launch" && this.#world.refuses?.test(request?.launchType ?? "") === true)
              throw new CloudError("CLOUD_QUOTA", `Too many machines ${request?.launchType}`);
            if (
              name === "launch" &&
              this.#world.stuck !== undefined &&
              request?.tags?.["kip-pod-uid"] === this.#world.stuck
            )
              await untilAborted(new Promise(() => {}), args[1] as AbortSignal);
            if (name === "launch" && --this.#world.room < 0) {
              const { instanceType } = request ?? {};
              throw new CloudError("CLOUD_NO_CAPACITY", "No capacity", { scope: { instanceType } });
            }
            if (name === "launch" && (request?.rootDiskBytes ?? 0) > this.#world.mostDiskBytes)
              throw new CloudError("CLOUD_INVALID_REQUEST", "No disk is that large");
            try {
              const result: unknown = await Reflect.apply(value, target, args);
              return result;
            } finally {
              if (name === "launch") await this.#world.count(target);
            }
          });
      },
    });
  }

  /** A dead process gets no response. */
  async #call<T>(effect: () => Promise<T>): Promise<T> {
    const isLast = ++this.#calls === this.#death?.atCall;
    if (isLast && this.#death?.isBefore) this.#isDead = true;
    if (this.#isDead) return await new Promise(() => {});
    const outcome = await effect().then(
      (value) => () => value,
      (error: unknown) => () => {
        throw error;
      },
    );
    if (isLast) this.#isDead = true;
    if (this.#isDead) return await new Promise(() => {});
    return outcome();
  }
}

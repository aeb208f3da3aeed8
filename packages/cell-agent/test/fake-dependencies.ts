import { EventEmitter } from "node:events";
import fs from "node:fs/promises";
import path from "node:path";
import { PassThrough, type Readable } from "node:stream";
import type { ProcessStreams } from "@kip/base";
import { ImageError, type StoredImage } from "@kip/oci-image";
import {
  RuntimeError,
  type ContainerExit,
  type ContainerResources,
  type ContainerRuntime,
  type ContainerSpec,
  type ContainerState,
  type ExecOptions,
} from "@kip/oci-runtime";
import { bucketCount, type ViewChange } from "@kip/network-view";
import type { AgentDependencies } from "../src/dependencies/agent-dependencies.ts";
import type { PodLink } from "../src/network/pod-link.ts";
import type { PodPlace, PodRules, PodRulesOptions } from "../src/network/pod-rules.ts";

/** An in-memory runtime: containers do what the test says. Outlives agents, like crun. */
export class FakeRuntime implements ContainerRuntime {
  readonly specs = new Map<string, ContainerSpec>();
  readonly states = new Map<string, ContainerState>();
  readonly calls: string[] = [];
  /** Signals that end a container. It ignores the others. */
  deadly: readonly string[] = ["SIGTERM", "SIGKILL"];
  /** Exit codes of containers that a signal ends. */
  exitCodes: Readonly<Record<string, number>> = {};
  /** Signals that cannot be sent. */
  unknownSignals: readonly string[] = [];
  /** Limits set for the whole pod, in order. */
  readonly podLimits: ContainerResources[] = [];
  /** Memory use of each container and of the pod. */
  memoryUsageBytes = 2;
  /** Thrown by the next create. */
  nextCreateError: Error | undefined;
  /** What exec does. */
  execute: (options: ExecOptions, streams: ProcessStreams, signal: AbortSignal) => Promise<number> =
    async () => 0;
  readonly #exits = new EventEmitter();

  async prepare(): Promise<void> {}

  takePreparedId(): undefined {}

  async create(spec: ContainerSpec): Promise<void> {
    this.calls.push(`create ${spec.labels?.["container"]}`);
    const error = this.nextCreateError;
    this.nextCreateError = undefined;
    if (error) throw error;
    this.specs.set(spec.id, spec);
    await fs.mkdir(spec.logDirectory, { recursive: true });
    await fs.writeFile(path.join(spec.logDirectory, "1.log"), "");
    const { id, labels = {}, logDirectory } = spec;
    this.states.set(id, { id, labels, status: "created", logDirectory, createdAtMs: Date.now() });
  }

  async start(id: string): Promise<void> {
    const state = this.#state(id);
    this.calls.push(`start ${state.labels["container"]}`);
    this.states.set(id, { ...state, status: "running", pid: 1, startedAtMs: Date.now() });
  }

  async kill(id: string, signal: string): Promise<void> {
    const state = this.#state(id);
    this.calls.push(`${signal} ${state.labels["container"]}`);
    if (this.unknownSignals.includes(signal)) throw new Error(`unknown signal ${signal}`);
    if (state.status === "running" && this.deadly.includes(signal))
      this.end(id, this.exitCodes[signal] ?? (signal === "SIGKILL" ? 137 : 143));
  }

  async remove(id: string): Promise<void> {
    this.states.delete(id);
  }

  async list(): Promise<readonly ContainerState[]> {
    return [...this.states.values()];
  }

  onExit(callback: (exit: ContainerExit) => void): () => void {
    this.#exits.on("exit", callback);
    return () => this.#exits.off("exit", callback);
  }

  async exec(
    id: string,
    options: ExecOptions,
    streams: ProcessStreams,
    signal: AbortSignal,
  ): Promise<{ exitCode: number }> {
    this.#state(id);
    options.onBegun?.();
    const exitCode = await this.execute(options, streams, signal);
    streams.stdout?.end();
    streams.stderr?.end();
    return { exitCode };
  }

  async attach(): Promise<{ exitCode: number }> {
    return { exitCode: 0 };
  }

  logs(
    id: string,
    logDirectory: string,
    options: { follow?: boolean },
    signal: AbortSignal,
  ): Readable {
    const stream = new PassThrough();
    void (async () => {
      stream.write(await fs.readFile(path.join(logDirectory, "1.log")));
      if (options.follow !== true || this.states.get(id)?.status !== "running") {
        stream.end();
        return;
      }
      const end = (): void => void stream.end();
      this.#exits.on("exit", (exit: ContainerExit) => exit.id === id && end());
      this.#exits.on(`log ${id}`, (text: string) => stream.write(text));
      signal.addEventListener("abort", end);
    })().catch((error: unknown) => stream.destroy(error as Error)); // a file's
    return stream;
  }

  async stats(): Promise<{
    cpuUsageNanoseconds: number;
    memoryUsageBytes: number;
    memoryWorkingSetBytes: number;
  }> {
    return {
      cpuUsageNanoseconds: 1,
      memoryUsageBytes: this.memoryUsageBytes,
      memoryWorkingSetBytes: 3,
    };
  }

  async resize(id: string, resources: ContainerResources): Promise<void> {
    const { labels } = this.#state(id);
    this.calls.push(`resize ${labels["container"]} ${JSON.stringify(resources)}`);
  }

  limitPod(_sandbox: object, resources: ContainerResources): void {
    this.podLimits.push(resources);
  }

  podStats(): undefined {}

  podMemoryUsage(): number {
    return this.memoryUsageBytes;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#exits.removeAllListeners();
  }

  /** Ends the container with this name. */
  exit(name: string, exitCode: number): void {
    const state = this.running(name);
    this.end(state.id, exitCode);
  }

  /** Writes a line to a container's log and to the followers of the log. */
  async print(name: string, line: string): Promise<void> {
    const { id, logDirectory } = this.running(name);
    await fs.appendFile(path.join(logDirectory, "1.log"), `${line}\n`);
    this.#exits.emit(`log ${id}`, `${line}\n`);
  }

  running(name: string): ContainerState {
    const all = [...this.states.values()];
    const state = all.find((one) => one.labels["container"] === name && one.status === "running");
    if (!state) throw new Error(`Container ${name} does not run`);
    return state;
  }

  private end(id: string, exitCode: number): void {
    const state = this.#state(id);
    const exit = { id, exitCode, oomKilled: false, finishedAtMs: Date.now(), lost: false };
    this.states.set(id, { ...state, status: "exited", exit });
    setImmediate(() => this.#exits.emit("exit", exit));
  }

  #state(id: string): ContainerState {
    const state = this.states.get(id);
    if (!state) throw new RuntimeError("CONTAINER_NOT_FOUND", `Cannot find container ${id}`);
    return state;
  }
}

/** In-memory rules. Outlive agents, like the kernel's. */
export class FakeRules {
  readonly places: PodPlace[] = [];
  readonly changes: ViewChange[] = [];
  /** For each set of rules, whether it took over the previous rules. */
  readonly takenOver: boolean[] = [];
  /** How many of the next changes fail. */
  failures = 0;

  create(place: PodPlace, { takesOver = false }: PodRulesOptions): PodRules {
    this.places.push(place);
    this.takenOver.push(takesOver);
    return {
      sums: Array<number>(bucketCount).fill(this.changes.length),
      apply: async (change) => {
        if (this.failures-- > 0) throw new Error("nft refused");
        this.changes.push(change);
      },
    };
  }
}

/** In-memory dependencies. `images` names the images in the registry. */
export function fakeDependencies(
  options: {
    readonly runtime?: FakeRuntime;
    readonly missing?: Set<string>;
    readonly rules?: FakeRules;
    /** Links that were set up. */
    readonly links?: PodLink[];
  } = {},
): AgentDependencies & { readonly runtime: FakeRuntime } {
  const runtime = options.runtime ?? new FakeRuntime();
  const image = (reference: string): StoredImage => ({
    id: "sha256:1",
    repoDigest: `${reference}@sha256:2`,
    reference,
    config: {
      entrypoint: ["/bin/app"],
      cmd: [],
      env: ["IMAGE=1"],
      workingDir: "/",
      user: "",
      volumes: [],
      exposedPorts: [],
      labels: {},
    },
    layers: [],
    sizeBytes: 100,
    notes: [],
  });
  return {
    runtime,
    images: {
      find: async () => undefined,
      pull: async (reference) => {
        const name = `${reference.registry}/${reference.repository}`;
        for (const missing of options.missing ?? []) {
          if (name.includes(missing))
            throw new ImageError("IMAGE_NOT_FOUND", "not there", {
              action: `find image "${name}"`,
            });
        }
        return { ...image(name), timingsMs: { pull: 5, unpack: 2 } };
      },
      importLayout: async (_layout, reference) => image(reference.repository),
      mountRootfs: async (_image, containerDir) => ({ rootfs: `${containerDir}/rootfs` }),
      unmountRootfs: async () => {},
    },
    mounter: {
      mountTmpfs: async () => {},
      bindMapped: async () => {},
      bind: async () => {},
      mountDisk: async () => {},
      unmountDisk: async () => {},
      unmount: async () => {},
      unmountBelow: async () => {},
      share: async () => {},
    },
    cdiDevices: async () => new Map(),
    describeDevice: async () => undefined,
    reserveHugePages: async () => undefined,
    diskMeter: {
      room: async () => ({ sizeBytes: 1e10, freeBytes: 5e9, inodes: 1e6, freeInodes: 5e5 }),
      usage: async () => new Map(),
    },
    createSandbox: async (sandbox) => ({
      name: "pod",
      hostname: sandbox.hostname,
      ipcNamespace: "",
      utsNamespace: "",
      cgroupParent: "",
    }),
    removeSandbox: async () => {},
    setUpLink: async (link) => void options.links?.push(link),
    createNetworkRules: (...made) => (options.rules ?? new FakeRules()).create(...made),
    resolveUser: async (_rootfs, user) => ({ uid: Number(user) || 0, gid: 0, additionalGids: [] }),
  };
}

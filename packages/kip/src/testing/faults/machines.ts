import { Readable } from "node:stream";
import {
  AgentError,
  type AgentClient,
  type DesiredPod,
  type PodReport,
  type waitForAgent,
} from "@kip/agent-api";
import type { Clock } from "@kip/base";
import type { Instance } from "@kip/cloud";
import { wireTime } from "@kip/k8s-client";
import type { Gate } from "./gate.ts";

type ContainerState = "waiting" | "running" | "ended";

/** How long a container takes to start, and how long to stop if it handles its signal, milliseconds. */
const startMs = 700;
const stopMs = 400;
/** When a connection over a cut network counts as lost, milliseconds, like for the client's pings. */
const noticeMs = 15_000;

/** What all of the world's machines share. */
interface Shared {
  readonly clock: Clock;
  /** Called when a container starts. */
  readonly onRun: (podUid: string, machine: Machine) => void;
  /** Called when a container has ended by itself, for good. */
  readonly onExit: (podUid: string, exitCode: number) => void;
}

/** A machine of the simulated cloud, with its agent and its pod's only container. */
export class Machine {
  readonly instance: Instance;
  readonly #shared: Shared;
  /** How often it was rebooted. */
  boots = 0;
  readonly #connections = new Set<Connection>();
  readonly #gone = new AbortController();
  pod: DesiredPod | undefined;
  state: ContainerState = "waiting";
  exitCode = 0;
  #restarts = 0;
  #startedAt = "";
  #finishedAt = "";
  #stopAtMs = Infinity;
  #isStopping = false;
  isReachable = true;

  constructor(instance: Instance, shared: Shared) {
    this.instance = instance;
    this.#shared = shared;
  }

  get isGone(): boolean {
    return this.#gone.signal.aborted;
  }

  /** UID of the pod whose container is running here. */
  get runs(): string | undefined {
    return this.state === "running" && !this.isGone ? this.pod?.uid : undefined;
  }

  /** Whether the pod's container has ended by itself, for good. */
  get hasEnded(): boolean {
    return this.pod !== undefined && this.state === "ended" && !this.#isStopping;
  }

  /** Makes the container exit. */
  finish(exitCode: number): void {
    if (this.state !== "running") return;
    const policy = this.pod?.restartPolicy ?? "Always";
    const runsAgain = policy === "Always" || (policy === "OnFailure" && exitCode !== 0);
    if (!runsAgain && !this.#isStopping) this.#shared.onExit(this.pod?.uid ?? "", exitCode);
    if (!runsAgain || this.#isStopping) return this.#end(exitCode);
    this.#restarts++;
    this.#run();
  }

  /** Reboots the machine, whose agent forgets the pod. */
  reboot(): void {
    this.boots++;
    this.#cutConnections();
    this.pod = undefined;
    this.state = "waiting";
    this.#stopAtMs = Infinity;
    this.#isStopping = false;
    this.#restarts = 0;
  }

  /** Cuts or restores the network to the machine. */
  setReachable(isReachable: boolean): void {
    if (isReachable === this.isReachable) return;
    this.isReachable = isReachable;
    if (isReachable) return;
    for (const connection of this.#connections)
      this.#shared.clock.sleep(noticeMs, this.#gone.signal).then(
        () => connection.close(),
        () => {},
      );
  }

  /** Breaks off connections. */
  #cutConnections(): void {
    for (const connection of this.#connections) connection.close();
  }

  /** Call this when the instance has ended. */
  end(): void {
    this.#gone.abort();
    this.#cutConnections();
  }

  /** @throws {AgentError} code `AGENT_IDENTITY_INVALID` if the machine belongs to another Cell */
  connect(gate: Gate, cellName: string): AgentClient {
    const { name } = this.instance;
    if (name !== cellName)
      throw new AgentError("AGENT_IDENTITY_INVALID", `Cell "${name}" answers, not "${cellName}"`);
    const connection = new Connection(this, gate, () => this.#connections.delete(connection));
    this.#connections.add(connection);
    return connection as unknown as AgentClient; // the methods that are called
  }

  put(pod: DesiredPod): number {
    if (this.pod && this.pod.uid !== pod.uid)
      throw new AgentError("AGENT_OTHER_POD", `Pod ${this.pod.uid} is here`);
    if (this.pod && this.pod.generation >= pod.generation) return this.pod.generation;
    const isFirst = this.pod === undefined;
    this.pod = pod;
    if (isFirst) this.#later(startMs, () => this.#start(pod));
    this.#changed();
    return pod.generation;
  }

  #start(pod: DesiredPod): void {
    if (this.pod?.uid !== pod.uid || this.state !== "waiting" || this.#isStopping) return;
    this.#run();
  }

  #run(): void {
    this.state = "running";
    this.#startedAt = wireTime(this.#shared.clock.now());
    this.#shared.onRun(this.pod?.uid ?? "", this);
    this.#changed();
  }

  #end(exitCode: number): void {
    this.state = "ended";
    this.exitCode = exitCode;
    this.#finishedAt = wireTime(this.#shared.clock.now());
    this.#changed();
  }

  /** Stops the containers within their grace period. Some take all of it. */
  stop(graceSeconds: number): void {
    if (!this.pod) throw new AgentError("AGENT_NO_POD", "The agent has not been given a pod");
    this.#isStopping = true;
    if (this.state === "waiting") return this.#end(137);
    const isDeaf = this.pod.name.startsWith("deaf");
    const ms = isDeaf ? graceSeconds * 1000 : Math.min(stopMs, graceSeconds * 1000);
    const atMs = this.#shared.clock.monotonic() + ms;
    if (atMs >= this.#stopAtMs || this.state === "ended") return;
    this.#stopAtMs = atMs;
    this.#later(ms, () => {
      if (this.state === "running") this.#end(isDeaf ? 137 : 143);
    });
  }

  #later(ms: number, work: () => void): void {
    const { pod } = this;
    this.#shared.clock.sleep(ms, this.#gone.signal).then(
      () => {
        if (this.pod?.uid === pod?.uid) work();
      },
      () => {}, // the machine is gone
    );
  }

  #changed(): void {
    for (const { changed } of this.#connections) changed();
  }

  report(): PodReport | undefined {
    const { pod, state, exitCode } = this;
    if (!pod) return undefined;
    const startedAt = this.#startedAt === "" ? undefined : this.#startedAt;
    const terminated = {
      exitCode,
      reason: exitCode === 0 ? "Completed" : "Error",
      startedAt,
      finishedAt: this.#finishedAt,
    };
    const container = {
      name: pod.containers[0]?.name ?? "",
      image: "i",
      ready: state === "running",
      started: state === "running",
      restartCount: this.#restarts,
      containerId: `crun://${this.instance.id}-${this.#restarts}`,
      ...(state === "waiting" && { waiting: { reason: "ContainerCreating" } }),
      ...(state === "running" && { running: { startedAt: this.#startedAt } }),
      ...(state === "ended" && { terminated }),
    };
    const ended = exitCode === 0 ? "Succeeded" : "Failed";
    return {
      podUid: pod.uid,
      generation: pod.generation,
      phase: state === "ended" ? ended : state === "running" ? "Running" : "Pending",
      startTime: this.#startedAt === "" ? wireTime(this.#shared.clock.now()) : this.#startedAt,
      initContainers: [],
      containers: [container],
      ephemeralContainers: [],
      events: [],
      timingsMs: state === "waiting" ? {} : { pull: 100, unpack: 100, start: 500 },
    };
  }
}

/** A connection of a process of kip to an agent, with the interface of `AgentClient`. */
class Connection {
  readonly closed: Promise<void>;
  readonly #machine: Machine;
  readonly #gate: Gate;
  readonly #closing = Promise.withResolvers<void>();
  readonly #onClose: () => void;
  #isClosed = false;
  #change = Promise.withResolvers<void>();

  constructor(machine: Machine, gate: Gate, onClose: () => void) {
    this.#machine = machine;
    this.#gate = gate;
    this.#onClose = onClose;
    this.closed = this.#closing.promise;
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#onClose();
    this.#closing.resolve();
    this.#change.resolve();
  }

  readonly changed = (): void => {
    this.#change.resolve();
    this.#change = Promise.withResolvers();
  };

  async #call<T>(effect: () => T, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted();
    try {
      return await this.#gate.call("agent", async () => {
        if (!this.#isClosed && !this.#machine.isReachable) await this.closed;
        if (this.#isClosed || this.#machine.isGone) throw lost();
        return effect();
      });
    } catch (error) {
      if (AgentError.is(error, "AGENT_UNREACHABLE")) this.close();
      throw error;
    }
  }

  async info(signal?: AbortSignal) {
    const { instance } = this.#machine;
    return await this.#call(() => {
      const { pod } = this.#machine;
      const bootId = `${instance.id}-${this.#machine.boots}`;
      return { cellName: instance.name, podUid: pod?.uid, podGeneration: pod?.generation, bootId };
    }, signal);
  }

  async putPod(pod: DesiredPod, signal?: AbortSignal): Promise<number> {
    return await this.#call(() => this.#machine.put(pod), signal);
  }

  async deletePod(graceSeconds: number, signal?: AbortSignal): Promise<void> {
    await this.#call(() => this.#machine.stop(graceSeconds), signal);
  }

  async putIdentity(_identity: unknown, signal?: AbortSignal): Promise<void> {
    await this.#call(() => {}, signal);
  }

  async logs(_container: string, _options: unknown, signal?: AbortSignal): Promise<Readable> {
    return await this.#call(() => Readable.from([Buffer.from("a line\n")]), signal);
  }

  async *status(signal: AbortSignal): AsyncGenerator<PodReport, void, void> {
    const aborted = new Promise<void>((resolve) => {
      if (signal.aborted) resolve();
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
    let told = "";
    while (!signal.aborted) {
      if (this.#isClosed || this.#gate.isDead) throw lost();
      const report = this.#machine.isReachable ? this.#machine.report() : undefined;
      const text = JSON.stringify(report);
      if (report && text !== told) {
        told = text;
        yield report;
        continue;
      }
      await Promise.race([this.#change.promise, this.closed, aborted]);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.resolve();
    this.close();
  }
}

function lost(): AgentError {
  return new AgentError("AGENT_UNREACHABLE", "The connection is gone", { retryable: true });
}

/** All running machines, by the name of their Cell. */
export class Machines {
  readonly #shared: Shared;
  readonly #machines = new Map<string, Machine>();

  constructor(shared: Shared) {
    this.#shared = shared;
  }

  /** Starts a machine for an instance. Returns a function that ends it. */
  boot(instance: Instance): () => void {
    const machine = new Machine(instance, this.#shared);
    this.#machines.set(instance.id, machine);
    return () => {
      machine.end();
      this.#machines.delete(instance.id);
    };
  }

  all(): readonly Machine[] {
    return [...this.#machines.values()];
  }

  /** Returns `waitForAgent` for a process of kip. */
  dialer(gate: Gate): typeof waitForAgent {
    return async ({ address, cellName, signal }) => {
      for (;;) {
        signal.throwIfAborted();
        // Names are not enough: a late launch can give an instance to an earlier Cell of the same name.
        const machine = this.all().find(({ instance }) => instance.managementIp === address);
        if (machine?.isReachable === true) {
          const client = await gate
            .call("agent", () => machine.connect(gate, cellName))
            .catch((error: unknown) => {
              if (!AgentError.is(error, "AGENT_UNREACHABLE")) throw error;
            });
          if (client) {
            gate.onDeath(() => (client as unknown as Connection).close());
            return client;
          }
        }
        await gate.clock.sleep(1000, signal);
      }
    };
  }
}

import type { Duplex, Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { untilAborted, type Clock, type Logger, type ProcessStreams } from "@kip/base";
import type { AgentClient } from "@kip/agent-api";
import type { CloudDriver, Instance, InterruptionNotice } from "@kip/cloud";
import type { Informer } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import type {
  LogOptions,
  NodeFacts,
  PodPresence,
  PodProvider,
  ProcessExit,
  ProviderCallbacks,
  ProbeCounts,
  ProviderStats,
  ResolvedPod,
} from "@kip/virtual-kubelet";
import type { MetricFamily } from "@kip/virtual-kubelet/telemetry";
import { PodAdmission, type PodAdmissionOptions } from "./admission/pod-admission.ts";
import { CellWorker } from "./cell/cell-worker.ts";
import { connectedAgent } from "./cell/connected-agent.ts";
import type { CellSteps } from "./cell/cell-step.ts";
import type { CellLimits } from "./cell/observe-cell.ts";
import type { NodeDump } from "./inspect/node-dump.ts";
import { wasClaimed, type PodRef } from "./state/cell-state.ts";
import type { StandbyCells } from "./standby/standby-cells.ts";
import type { CellChooser } from "./selection/cell-chooser.ts";
import { isStandby, podUidTag, type Cell, type StandbyCell } from "./state/cell.ts";
import type { LogArchive } from "./logs/log-archive.ts";
import { PodLogs } from "./logs/pod-logs.ts";
import type { KipMetrics } from "./metrics/kip-metrics.ts";
import { PodPublisher } from "./status/pod-publisher.ts";
import { CellStats, type MeasuredPod } from "./status/cell-stats.ts";
import { countProbes, measurePods } from "./status/pod-usage.ts";

/** Dependencies of a {@link KipProvider}. */
export interface KipProviderOptions {
  readonly driver: CloudDriver;
  readonly steps: CellSteps;
  readonly handlerOf: PodAdmissionOptions["handlerOf"];
  readonly allowedUnsafeSysctls?: PodAdmissionOptions["allowedUnsafeSysctls"];
  readonly chooser: Pick<CellChooser, "sizeOf">;
  /** Cells of this node that have a pod, as read from the API. Synced before the provider starts. */
  readonly cells: Pick<Informer<Cell>, "synced" | "isSynced" | "list"> & {
    /** The Cells of one pod, in the order of `cellsOfPod`. */
    ofPod(podUid: string): readonly Cell[];
  };
  /** The cells without pods, among them a Cell whose pod has another one. @default there are no standby cells */
  readonly standby?: Pick<StandbyCells, "endStray" | "workers"> | undefined;
  /** Metrics of all cells. */
  readonly metricFamilies: () => readonly MetricFamily[];
  /** Logs of the node itself. @default none */
  readonly nodeLog?: NonNullable<PodProvider["nodeLog"]> | undefined;
  readonly archive: LogArchive;
  readonly limits: CellLimits;
  readonly nodeFacts: NodeFacts;
  /** Counts the events of pods. */
  readonly metrics: Pick<KipMetrics, "event">;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Runs each pod on its own cell, with one {@link CellWorker} per pod UID. */
export class KipProvider implements PodProvider {
  readonly readsEnvFiles = true;
  readonly holdsBackContainers = true;
  readonly #options: KipProviderOptions;
  readonly #workers = new Map<string, CellWorker>();
  readonly #admission: PodAdmission;
  readonly #logs: PodLogs;
  readonly #subscriptions = new DisposableStack();
  /** Notices by token. A notice may come before its pod. */
  readonly #notices = new Map<string, InterruptionNotice>();
  readonly #stopped = new AbortController();
  readonly #cellStats: CellStats;
  #callbacks: ProviderCallbacks | undefined;
  #nodeFacts: NodeFacts;
  readonly #startedAt: number;

  constructor(options: KipProviderOptions) {
    this.#options = options;
    this.#nodeFacts = options.nodeFacts;
    this.#startedAt = options.clock.now();
    this.#cellStats = new CellStats(options);
    const { handlerOf, allowedUnsafeSysctls, archive } = options;
    this.#admission = new PodAdmission({
      handlerOf,
      allowedUnsafeSysctls,
      nodeFacts: () => this.#nodeFacts,
      callbacks: () => this.#callbacks,
      runningPods: () => this.#runningPods(),
      workerCount: () => this.#workers.size,
    });
    this.#logs = new PodLogs({ archive, workerOf: (podUid) => this.#workers.get(podUid) });
  }

  async start(callbacks: ProviderCallbacks): Promise<void> {
    this.#callbacks = callbacks;
    const { driver } = this.#options;
    const stops = [
      driver.onTerminated((instance) => {
        this.#notices.delete(instance.token);
        for (const worker of this.#workersOf(instance)) worker.instanceEnded(instance);
      }),
      driver.onInterruption((notice) => {
        this.#notices.set(notice.instance.token, notice);
        for (const worker of this.#workersOf(notice.instance)) worker.interrupted(notice);
      }),
    ];
    for (const stop of stops) this.#subscriptions.defer(stop);
    await this.#options.cells.synced;
  }

  /**
   * The workers that an instance may affect: that of the pod in its tag. If it was a standby instance until just now, it may
   * not have that tag yet.
   */
  #workersOf({ tags }: Instance): Iterable<CellWorker> {
    const { [podUidTag]: podUid } = tags;
    if (podUid === undefined) return this.#workers.values();
    const worker = this.#workers.get(podUid);
    return worker ? [worker] : [];
  }

  /** Call this when a Cell was added or changed in the API. It informs the pod's worker. */
  cellChanged(cell: Cell): void {
    const worker = this.#workers.get(cell.spec.podRef.uid);
    if (worker) this.#cellSeen(worker, cell);
  }

  /**
   * Passes one of its pod's Cells to the worker, with a notice that came earlier. Ends a second Cell, which may result from a
   * late write of a claim.
   */
  #cellSeen(worker: CellWorker, cell: Cell): void {
    worker.cellSeen(cell);
    const { uid } = cell.metadata;
    const notice = this.#notices.get(uid);
    if (notice) worker.interrupted(notice);
    const { cell: present, history } = worker.state;
    if (!present.object || present.object.metadata.uid === uid || history.goneCells.has(uid))
      return;
    this.#options.standby?.endStray(cell);
  }

  /** Call this when a Cell or a standby cell was deleted from the API. */
  cellGone(cell: Cell | StandbyCell): void {
    this.#notices.delete(cell.metadata.uid);
    if (!isStandby(cell)) this.#workers.get(cell.spec.podRef.uid)?.cellGone(cell);
  }

  /**
   * Asks the cloud which cells are running, for those whose agents have not answered for long. Makes no call if there are none.
   *
   * @throws {CloudError} and then reports nothing to the workers
   */
  async askCloud(): Promise<void> {
    const all = [...this.#workers.values(), ...(this.#options.standby?.workers ?? [])];
    const workers = all.filter(({ doubtful }) => doubtful !== undefined);
    if (workers.length === 0) return;
    const instances = await this.#options.driver.list();
    const running = instances.filter(({ state }) => state === "running");
    const tokens = new Set(running.map(({ token }) => token));
    for (const worker of workers) worker.cloudAsked(tokens);
  }

  /** Whether this pod has a worker. */
  hasWorker(podUid: string): boolean {
    return this.#workers.has(podUid);
  }

  /** Frees the cell of a finished pod, which the virtual kubelet no longer applies or removes. */
  freeCell(podRef: PodRef): void {
    this.#worker(podRef).finish();
  }

  async finish(pod: Pod, signal: AbortSignal): Promise<void> {
    const podRef = refOf(pod);
    this.#admission.forget(podRef.uid);
    if (!this.#workers.has(podRef.uid) && !this.#hasCell(podRef.uid)) return;
    const worker = this.#worker(podRef);
    worker.finish(pod);
    await this.#untilSettled(worker, signal);
  }

  async admit(pod: Pod): Promise<void> {
    await this.#admission.admit(pod);
  }

  async apply(resolved: ResolvedPod): Promise<void> {
    const { pod } = resolved;
    this.#admission.forget(pod.metadata.uid);
    this.#worker(refOf(pod)).apply(resolved);
  }

  /** Resumes the cell that has the pod, if there is one. */
  async resume(pod: Pod): Promise<void> {
    const podRef = refOf(pod);
    const [cell] = this.#options.cells.ofPod(podRef.uid);
    if (cell?.status && wasClaimed(cell.status)) this.#worker(podRef).resume(pod);
  }

  async remove(pod: Pod, graceSeconds: number, signal?: AbortSignal): Promise<void> {
    this.#admission.forget(pod.metadata.uid);
    await this.#remove(refOf(pod), graceSeconds, { pod, signal });
  }

  async removeUnknown(uid: string): Promise<void> {
    this.#admission.forget(uid);
    const [cell] = this.#options.cells.ofPod(uid);
    const known = this.#workers.get(uid)?.state.podRef ?? cell?.spec.podRef;
    if (known) await this.#remove(known, 0);
    await this.#forgetLogs(uid);
  }

  async #remove(
    podRef: PodRef,
    graceSeconds: number,
    {
      pod,
      signal,
    }: { readonly pod?: Pod | undefined; readonly signal?: AbortSignal | undefined } = {},
  ): Promise<void> {
    const worker = this.#worker(podRef);
    worker.remove(graceSeconds, pod);
    await this.#untilSettled(worker, signal);
    this.#workers.delete(podRef.uid);
    await this.#forgetLogs(podRef.uid);
  }

  /** Removes the logs. If that fails, {@link KipProvider.list} finds the folder again. The pod does not wait for it. */
  async #forgetLogs(podUid: string): Promise<void> {
    try {
      await this.#options.archive.remove(podUid);
    } catch (error) {
      this.#options.logger.warn("Could not remove the logs of a pod", { podUid, err: error });
    }
  }

  /** @throws the signal's reason, or an error if the provider was stopped, because a stopped worker never settles */
  async #untilSettled(worker: CellWorker, signal?: AbortSignal): Promise<void> {
    const ends = signal ? AbortSignal.any([signal, this.#stopped.signal]) : this.#stopped.signal;
    await untilAborted(worker.settled, ends);
  }

  async presence(uid: string): Promise<PodPresence> {
    const state = this.#workers.get(uid)?.state;
    // Only the logs of the finished pod remain.
    if (state) return state.end.isPodFinished && !state.cell.object ? "absent" : "present";
    if (!this.#options.cells.isSynced) return "unknown";
    return this.#hasCell(uid) ? "present" : "absent";
  }

  #hasCell(podUid: string): boolean {
    return this.#options.cells.ofPod(podUid).length > 0;
  }

  async list(): Promise<readonly PodRef[]> {
    const refs = new Map<string, PodRef>();
    for (const { state } of this.#workers.values()) refs.set(state.podRef.uid, state.podRef);
    for (const cell of this.#options.cells.list()) refs.set(cell.spec.podRef.uid, cell.spec.podRef);
    for (const uid of await this.#options.archive.pods()) {
      if (!refs.has(uid)) refs.set(uid, { uid, namespace: "", name: "" });
    }
    return [...refs.values()];
  }

  async nodeFacts(): Promise<NodeFacts> {
    return this.#nodeFacts;
  }

  /** Replaces labels and capacity of the virtual node. */
  changeNode(facts: NodeFacts): void {
    this.#nodeFacts = facts;
    this.#callbacks?.nodeChanged();
  }

  /** Starts cells again at once where that has failed: the configuration, which has changed, may have been the reason. */
  retryStarts(): void {
    for (const worker of this.#workers.values()) worker.retryStart();
  }

  async podAllocatable(pod: Pod): Promise<Readonly<Record<string, string>>> {
    const { cells, chooser } = this.#options;
    const [cell] = cells.ofPod(pod.metadata.uid);
    const { capacity, allocatable = capacity } = this.#nodeFacts;
    return { ...allocatable, ...(await chooser.sizeOf(pod, cell?.spec.instanceType)) };
  }

  async ping(): Promise<void> {
    await this.#options.driver.networkFacts();
  }

  async logs(
    pod: Pod,
    container: string,
    options: LogOptions,
    signal: AbortSignal,
  ): Promise<Readable> {
    return await this.#logs.open(pod, container, options, signal);
  }

  async exec(
    pod: Pod,
    container: string,
    command: readonly string[],
    streams: ProcessStreams,
    signal: AbortSignal,
  ): Promise<ProcessExit> {
    return await this.#agent(pod).exec(container, command, streams, signal);
  }

  async attach(
    pod: Pod,
    container: string,
    streams: ProcessStreams,
    signal: AbortSignal,
  ): Promise<ProcessExit> {
    return await this.#agent(pod).attach(container, streams, signal);
  }

  async portForward(
    pod: Pod,
    port: number,
    connection: Duplex,
    signal: AbortSignal,
  ): Promise<void> {
    const remote = await this.#agent(pod).portForward(port, signal);
    await Promise.all([
      pipeline(connection, remote, { signal }),
      pipeline(remote, connection, { signal }),
    ]);
  }

  async stats(signal: AbortSignal): Promise<ProviderStats> {
    return { pods: await measurePods(this.#connected(), this.#cellStats, signal) };
  }

  async probes(signal: AbortSignal): Promise<readonly ProbeCounts[]> {
    return await countProbes(this.#connected(), this.#cellStats, signal);
  }

  async nodeLog(path: string, signal: AbortSignal): Promise<string | undefined> {
    return await this.#options.nodeLog?.(path, signal);
  }

  /** What kip is doing for each pod: part of `kipctl dump`. */
  dump(): Pick<NodeDump, "admitted" | "pods"> {
    return {
      admitted: this.#admission.admitted.map(
        ({ metadata }) => `${metadata.namespace}/${metadata.name}`,
      ),
      pods: [...this.#workers.values()].map((worker) => worker.dump()),
    };
  }

  metricFamilies(): readonly MetricFamily[] {
    return this.#options.metricFamilies();
  }

  /** Ends all workers. Pods and cells stay as they are. */
  async stop(): Promise<void> {
    this.#subscriptions.dispose();
    this.#stopped.abort(new DOMException("The provider was stopped", "AbortError"));
    await Promise.all([...this.#workers.values()].map((worker) => worker.stop()));
    await this.#options.steps.flush();
  }

  #runningPods(): readonly Pod[] {
    return [...this.#workers.values()].flatMap(({ state }) =>
      state.pod.object && !state.end.isPodFinished ? [state.pod.object] : [],
    );
  }

  /** The pods whose agents are connected and can be asked for statistics. */
  #connected(): readonly MeasuredPod[] {
    return [...this.#workers.values()].flatMap(({ state }): MeasuredPod[] => {
      const { podRef, agent, pod } = state;
      if (!agent.client) return [];
      const { client, report } = agent;
      return [{ uid: podRef.uid, agent: client, report, pod: pod.object }];
    });
  }

  #agent(pod: Pod): AgentClient {
    return connectedAgent(pod, this.#workers.get(pod.metadata.uid));
  }

  /** The pod's worker. If there is none, creates it with the pod's existing Cells. */
  #worker(podRef: PodRef): CellWorker {
    const known = this.#workers.get(podRef.uid);
    if (known) return known;
    const { steps, limits, clock, logger } = this.#options;
    const { namespace, name, uid } = podRef;
    const publisher = new PodPublisher({
      podUid: uid,
      callbacks: () => this.#callbacks,
      startedAt: this.#startedAt,
    });
    const worker = new CellWorker({
      podRef,
      nodeIp: this.#nodeFacts.internalIp,
      steps,
      limits,
      clock,
      logger: logger.with({ pod: `${namespace}/${name}`, podUid: uid }),
      onChange: ({ status, cell }) => {
        publisher.status(status);
        // A standby cell may have got its notice before it had the pod.
        const notice = this.#notices.get(cell.object?.metadata.uid ?? "");
        if (notice) worker.interrupted(notice);
      },
      onReport: (report, cellUid) => publisher.report(report, cellUid),
      onEvent: (type, reason, message) => this.podEvent(uid, type, reason, message),
    });
    this.#workers.set(uid, worker);
    for (const cell of this.#options.cells.ofPod(uid)) this.#cellSeen(worker, cell);
    return worker;
  }

  /** Publishes an event of a pod. */
  podEvent(uid: string, type: "Normal" | "Warning", reason: string, message: string): void {
    this.#options.metrics.event(type, reason);
    this.#callbacks?.podEvent({ uid, type, reason, message });
  }
}

function refOf(pod: Pod): PodRef {
  const { namespace, name, uid } = pod.metadata;
  return { namespace, name, uid };
}

import { setImmediate as nextTurn } from "node:timers/promises";
import { AgentError, type AgentStats, type DesiredPod, type PodReport } from "@kip/agent-api";
import { type Clock, type Logger } from "@kip/base";
import type { PodSandbox } from "@kip/oci-runtime";
import { Reconciler, type Plan } from "@kip/reconcile";
import { ProbeCounts } from "../checks/probe-counts.ts";
import type { AgentDependencies } from "../dependencies/agent-dependencies.ts";
import { DiskFigures } from "../figures/disk-figures.ts";
import { CellNetwork } from "../network/cell-network.ts";
import { isSame, podLimits } from "../state/amounts.ts";
import { logOf, runningId, runningIds } from "../state/find-container.ts";
import { laneOf, planPod, type Step, type PodStepArgs } from "../state/plan.ts";
import type { PodChange } from "../state/pod-change.ts";
import { PodEvents } from "../state/pod-events.ts";
import { noPod, type PodState } from "../state/pod-state.ts";
import { reduce } from "../state/reduce.ts";
import { podReport } from "../state/report.ts";
import { podExecutors } from "../steps/pod-executors.ts";
import { present, type StepTools } from "../steps/step-tools.ts";
import type { AgentDirectories } from "../storage/agent-directories.ts";
import { PodStore } from "../storage/pod-store.ts";
import { restoredState, savedState } from "./saved-state.ts";
import { takeOver } from "./take-over.ts";

/**
 * Delays before a failed step is repeated: the kubelet's back-off for volumes. Pulls and starts have their own back-offs in the
 * plan.
 */
const backoff = { initialMs: 500, maxMs: 122_000, jitter: 0 };

/** Options of {@link AgentWorker}. */
export interface AgentWorkerOptions {
  readonly directories: AgentDirectories;
  readonly logger: Logger;
  readonly clock: Clock;
  /** Called when the report may have changed. */
  readonly onChange: () => void;
}

/**
 * Keeps the cell's pod in its desired state. Everything that happens (a newer pod, the end of a container, the result of a
 * probe) is a change of the state, which `reduce` applies. After each change, `planPod` decides which steps to run. The part of
 * the state that has to survive the agent is saved before the steps begin.
 */
export class AgentWorker implements AsyncDisposable {
  /** Receives changes of the cluster's network. */
  readonly network: CellNetwork;
  /** The pod's disk usage. */
  readonly diskFigures = new DiskFigures();
  readonly #options: AgentWorkerOptions;
  readonly #store: PodStore;
  readonly #events: PodEvents;
  readonly #probeCounts = new ProbeCounts();
  readonly #reconciler: Reconciler<PodStepArgs, PodState, PodChange>;
  #tools: StepTools | undefined;
  /** Not saved, because the cloud's notice is read again after a restart of the agent. */
  #machineEndsAt: string | undefined;
  /** The pending write, which steps wait for. */
  #saving: Promise<void> | undefined;

  /** Restores the state of an earlier process at once. Does nothing else before {@link AgentWorker.begin}. */
  constructor(options: AgentWorkerOptions) {
    const { clock, logger } = options;
    this.#options = options;
    this.network = new CellNetwork(clock);
    this.#events = new PodEvents((event) =>
      this.#reconciler.apply({ kind: "event", event, nowMs: clock.now() }),
    );
    this.#store = new PodStore(options.directories);
    const saved = this.#store.load();
    this.#reconciler = new Reconciler({
      initial: saved ? restoredState(saved.pod, saved.state, clock.now()) : noPod,
      reduce,
      plan: (state, monotonicMs) => plan(state, clock.now(), monotonicMs),
      lane: laneOf,
      executors: podExecutors(() => present(this.#tools)),
      backoff,
      onChange: () => {
        this.#trySave();
        options.onChange();
      },
      onFailure: ({ step, error }) => {
        logger.warn("Could not execute a step", { step: step.kind, err: error });
        return undefined;
      },
      clock,
      logger,
    });
  }

  /** The cell's pod, if it has one. */
  get pod(): DesiredPod | undefined {
    return this.#state.desired;
  }

  /**
   * Cgroup and namespaces of the pod. Undefined before they are created, and after a start of the agent until it has found
   * them.
   */
  get sandbox(): PodSandbox | undefined {
    return this.#state.resources?.sandbox;
  }

  /** Whether the pod itself has a memory limit. Its cgroup always has one, which reserves memory for the agent. */
  get hasMemoryLimit(): boolean {
    return this.#state.allocation.podLimits?.memoryBytesLimit !== undefined;
  }

  get #state(): PodState {
    return this.#reconciler.state;
  }

  /** Takes over existing containers, and starts to work. */
  async begin(dependencies: AgentDependencies): Promise<void> {
    const { directories, clock, logger } = this.#options;
    this.#tools = {
      dependencies,
      directories,
      network: this.network,
      events: this.#events,
      probeCounts: this.#probeCounts,
      diskFigures: this.diskFigures,
      save: () => this.#saveTogether(),
      trySave: () => this.#saveTogether().catch((error: unknown) => this.#notSaved(error)),
      clock,
      logger,
    };
    dependencies.runtime.onExit((exit) => this.#reconciler.apply({ kind: "exited", exit }));
    this.#reconciler.apply(await takeOver(this.#state, this.#tools));
  }

  /** Reports the pod as failed, because the agent cannot run anything. */
  fail(message: string): void {
    this.#events.warning("Failed", message);
  }

  /** The cloud will reclaim the machine at this time, RFC 3339. */
  machineEnds(endsAt: string): void {
    this.#machineEndsAt = endsAt;
    this.#options.onChange();
  }

  /** The cloud recommends leaving the machine. */
  rebalance(): void {
    const message = "EC2 recommends to leave this spot instance, as it may be taken back soon";
    this.#events.warning("RebalanceRecommended", message);
  }

  /**
   * Accepts a pod, or a newer version of it. An older or equal version has no effect.
   *
   * @throws {AgentError} code `AGENT_OTHER_POD`
   */
  put(pod: DesiredPod): void {
    const { clock, logger } = this.#options;
    const before = this.pod;
    if (before && before.uid !== pod.uid) {
      throw new AgentError(
        "AGENT_OTHER_POD",
        `Cannot take pod "${pod.namespace}/${pod.name}": the cell has pod "${before.namespace}/${before.name}"`,
      );
    }
    if (before && pod.generation <= before.generation) return;
    this.#store.savePod(pod);
    this.#reconciler.apply({
      kind: "put",
      pod,
      nowMs: clock.now(),
      monotonicMs: clock.monotonic(),
    });
    this.#save();
    logger.info(before ? "Updated the pod" : "Received the pod", { podUid: pod.uid });
  }

  /**
   * Ends the pod within the grace period. A second call can only shorten it.
   *
   * @throws {AgentError} code `AGENT_NO_POD`
   */
  remove(graceSeconds: number): void {
    if (!this.pod) throw new AgentError("AGENT_NO_POD", "Cannot stop the pod: there is none");
    const nowMs = this.#options.clock.now();
    this.#reconciler.apply({ kind: "end", graceMs: graceSeconds * 1000, nowMs });
    this.#save();
  }

  /** The report for kip. Undefined before there is a pod. */
  report(): PodReport | undefined {
    const { desired: pod, containers, ...state } = this.#state;
    if (!pod) return undefined;
    return podReport({
      pod,
      containers: [...containers.values()],
      events: state.events,
      startTimeMs: state.startTimeMs,
      isEnding: state.end !== undefined,
      ...state.reason,
      timingsMs: state.timings.values,
      machineEndsAt: this.#machineEndsAt,
      isUnprepared: state.isPrepareFailed,
      isReleased: state.isReleased,
      allocation: state.allocation,
    });
  }

  /**
   * ID of a running container.
   *
   * @throws {AgentError} code `AGENT_CONTAINER_UNKNOWN` or `AGENT_CONTAINER_NOT_RUNNING`
   */
  runningId(name: string): string {
    return runningId(this.#state, name);
  }

  /** IDs of the running containers by name. */
  running(): ReadonlyMap<string, string> {
    return runningIds(this.#state);
  }

  /** Counts of the containers' probe results. */
  probes(): NonNullable<AgentStats["probes"]> {
    return this.#probeCounts.list;
  }

  /**
   * The file of a container's log, from the present run or the last one that has started.
   *
   * @throws {AgentError} code `AGENT_CONTAINER_UNKNOWN`
   */
  log(name: string, previous: boolean): { readonly id: string; readonly path: string } {
    return logOf(this.#state, name, previous);
  }

  /** Stops following the containers, which keep running. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.network[Symbol.dispose]();
    await this.#reconciler.stop();
    await this.#tools?.dependencies.runtime[Symbol.asyncDispose]();
  }

  #save(): void {
    if (this.pod) this.#store.saveState(savedState(this.#state));
  }

  /** One write for all steps in this turn of the event loop, because hundreds of containers may start in it. */
  async #saveTogether(): Promise<void> {
    this.#saving ??= nextTurn().then(() => {
      this.#saving = undefined;
      this.#save();
    });
    await this.#saving;
  }

  /** A full disk must not stop the pod or its reports. The next change saves this one, too. */
  #trySave(): void {
    try {
      this.#save();
    } catch (error) {
      this.#notSaved(error);
    }
  }

  #notSaved(error: unknown): void {
    this.#options.logger.error("Could not save the state of the pod", { err: error });
  }
}

/** The plan for a time of day. The reconciler uses the monotonic clock. */
function plan(state: PodState, nowMs: number, monotonicMs: number): Plan<Step> {
  const { desired: pod, containers, leftovers, startTimeMs } = state;
  if (!pod || !state.isTakenOver) return { steps: [] };
  const { activeDeadlineSeconds } = pod;
  const { steps, wakeAtMs } = planPod({
    pod,
    containers: [...containers.values()],
    preparation: preparation(state, pod),
    network: network(state, pod),
    fillsDisk: [...containers.values()].some(({ saved }) => saved.run !== undefined),
    leftovers,
    allocation: state.allocation,
    isPodResized: isPodResized(state, pod),
    isStopping: state.end !== undefined,
    deadlineMs:
      activeDeadlineSeconds === undefined ? undefined : startTimeMs + activeDeadlineSeconds * 1000,
    nowMs,
  });
  return {
    steps,
    wakeAtMs: wakeAtMs === undefined ? undefined : wakeAtMs - nowMs + monotonicMs,
  };
}

function isPodResized({ allocation }: PodState, pod: DesiredPod): boolean {
  const { podLimits: limits, containers } = allocation;
  return limits !== undefined && !isSame(limits, podLimits(pod, containers));
}

function network({ isNetworkInForce }: PodState, pod: DesiredPod): "none" | "waiting" | "inForce" {
  if (!pod.network) return "none";
  return isNetworkInForce ? "inForce" : "waiting";
}

function preparation(
  { isReleased, resources }: PodState,
  { generation }: DesiredPod,
): "none" | "stale" | "done" | "released" {
  if (isReleased) return "released";
  if (!resources) return "none";
  return resources.generation < generation ? "stale" : "done";
}

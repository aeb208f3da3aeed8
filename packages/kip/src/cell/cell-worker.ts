import type { Clock, Logger } from "@kip/base";
import type { AgentClient, PodReport } from "@kip/agent-api";
import type { Instance } from "@kip/cloud";
import type { Pod } from "@kip/k8s-types";
import { NoEffectError, Reconciler, type StepFailure } from "@kip/reconcile";
import type { ResolvedPod } from "@kip/virtual-kubelet";
import { problemOf } from "../errors.ts";
import { dumpWorker, type DumpedWorker } from "../inspect/node-dump.ts";
import type { CellChange } from "../state/cell-change.ts";
import { newCellState, type CellState, type PodRef } from "../state/cell-state.ts";
import type { Cell, CellStatus } from "../state/cell.ts";
import { interruptionMessage } from "../status/disruption.ts";
import { hasNewConditions } from "./cell-conditions.ts";
import { cellPlan } from "./cell-plan.ts";
import type { CellStep, CellStepArgs, CellSteps } from "./cell-step.ts";
import { doubtfulInstance, isHealthAsked, type CellLimits } from "./observe-cell.ts";
import { reduceCell } from "./reduce-cell.ts";
import { isCostly } from "./outages.ts";
import { stepBackoff } from "./step-backoff.ts";

/** Options of {@link CellWorker}. */
export interface CellWorkerOptions {
  readonly podRef: PodRef;
  /** Address of the virtual node. */
  readonly nodeIp: string;
  readonly steps: CellSteps;
  readonly limits: CellLimits;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Called when the state has changed, possibly including the pod's status. */
  readonly onChange: (state: CellState) => void;
  /** Called with a report of the pod's own agent, restricted to the pod's containers. */
  readonly onReport: (report: PodReport, cellUid: string | undefined) => void;
  /** Called with an event of the pod: a problem, or why it waits. */
  readonly onEvent: (type: "Normal" | "Warning", reason: string, message: string) => void;
}

/** Lanes of the steps that do not wait for others. */
const lanes: { readonly [K in CellStep["kind"]]?: string } = {
  // The deadline must not wait for the step that it aborts.
  expire: "deadline",
  evict: "replacement",
  awaitReplacement: "replacement",
  // Dialing continues.
  noteReach: "reach",
  tagInstance: "tags",
};

/**
 * The longest notice that is accepted from a cell about its own machine, milliseconds (24 hours): clouds give
 * minutes.
 */
const longestNoticeMs = 86_400_000;

/** The used fields of an `InterruptionNotice`. */
interface CellNotice {
  readonly instance: Pick<Instance, "id" | "token">;
  readonly endsAt: string;
}

/**
 * The worker of one pod and its cell. Passes what the API, the cloud and the agent report to a {@link Reconciler}, and follows
 * the agent that the state is connected to. Workers of different pods never wait for each other.
 */
export class CellWorker {
  readonly #options: CellWorkerOptions;
  readonly #reconciler: Reconciler<CellStepArgs, CellState, CellChange>;
  readonly #logsSaved = Promise.withResolvers<void>();
  #followed: AgentClient | undefined;
  #reportedWait: string | undefined;
  #status: CellStatus | undefined;
  /** UID of the Cell whose own notice was accepted. */
  #heardCell: string | undefined;

  constructor(options: CellWorkerOptions) {
    const { podRef, nodeIp, steps, limits, clock, logger } = options;
    this.#options = options;
    this.#reconciler = new Reconciler<CellStepArgs, CellState, CellChange>({
      initial: newCellState(podRef, nodeIp),
      plan: cellPlan(limits),
      reduce: reduceCell,
      executors: { ...steps.executors, connect: async (...args) => await this.#connect(...args) },
      lane: ({ kind }) => lanes[kind] ?? "cell",
      backoff: stepBackoff,
      // After a failed launch the instance is looked up first, which does not count as progress.
      isProgress: ({ kind }) => kind !== "observeInstance",
      onChange: (state) => this.#changed(state),
      onFailure: (failure) => this.#failed(failure),
      clock,
      logger,
    });
  }

  /** The state of the pod and its cell. */
  get state(): CellState {
    return this.#reconciler.state;
  }

  /** What the worker is doing, for people. */
  dump(): DumpedWorker {
    return dumpWorker(this.state, this.#reconciler.inspect());
  }

  /** Resolves when pod and cell are settled and nothing is left to do. New work creates a new promise. */
  get settled(): Promise<void> {
    return this.#reconciler.settled;
  }

  /** Resolves when the logs of a finished pod have been saved, as far as possible. */
  get logsSaved(): Promise<void> {
    return this.#logsSaved.promise;
  }

  /** The pod should run with this content. */
  apply(resolved: ResolvedPod): void {
    this.#request({ kind: "applied", resolved });
  }

  /** The pod is on its cell. Follows it there without its content, because what it refers to is not known. */
  resume(pod: Pod): void {
    if (!this.state.pod.resolved) this.#reconciler.apply({ kind: "resumed", pod });
  }

  /** The pod should stop; a shorter grace period than before replaces that one. */
  remove(graceSeconds: number, pod?: Pod): void {
    this.#request({ kind: "removed", graceSeconds, pod });
  }

  /** The pod is terminal in the API, written by kip or another client. Stops what is still running. */
  finish(pod?: Pod): void {
    this.#request({ kind: "finished", pod });
  }

  /** The API's view of the cell. */
  cellSeen(cell: Cell | undefined): void {
    if (cell) this.#reconciler.apply({ kind: "cellSeen", cell });
  }

  /** The Cell was deleted without its finalizer, by another client: its instance may still run. */
  cellGone({ metadata }: Cell): void {
    this.#reconciler.apply({ kind: "cellGone", uid: metadata.uid });
  }

  /** The cloud reported that the instance ended. */
  instanceEnded({ token }: Instance): void {
    this.#reconciler.apply({ kind: "instanceEnded", token });
  }

  /**
   * The cloud announced, to kip or to the machine, that it takes the instance back; of several notices the earliest
   * end counts. {@link CellWorker.instanceEnded} reports the end itself.
   */
  interrupted({ instance, endsAt }: CellNotice): void {
    const { cell, machine } = this.state;
    if (instance.token !== cell.object?.metadata.uid) return;
    if (machine.interruption && endOf(endsAt) >= endOf(machine.interruption.endsAt)) return;
    const notice = { instanceId: instance.id, endsAt };
    this.#options.onEvent("Warning", "CellInterrupted", interruptionMessage(notice));
    const leftMs = Date.parse(endsAt) - this.#options.clock.now();
    // If the time is invalid, the pod moves at once.
    this.#reconciler.apply({ kind: "interrupted", notice, leftMs: Math.max(0, leftMs || 0) });
  }

  /** See {@link doubtfulInstance}. */
  get doubtful(): string | undefined {
    const { limits, clock } = this.#options;
    return doubtfulInstance(this.state, limits, clock.monotonic());
  }

  /** The cloud has reported which instances run. */
  cloudAsked(running: ReadonlySet<string>): void {
    const token = this.doubtful;
    if (token === undefined) return;
    const isRunning = running.has(token);
    if (isHealthAsked(this.state, this.#options.limits))
      this.#reconciler.apply({ kind: "cloudAsked", isRunning });
    // A list may lag behind, so the instance itself is looked up.
    if (!isRunning) this.#reconciler.apply({ kind: "machine", state: "unknown" });
  }

  /** The agent sent a report. */
  reportSeen(report: PodReport): void {
    if (report.podUid !== this.state.podRef.uid) return;
    this.#reconciler.apply({ kind: "reported", report });
    this.#takeNotice(report);
    this.#options.steps.noteReport(this.#view);
    const { agent, cell } = this.state;
    this.#options.onReport({ ...report, ...agent.report }, cell.object?.metadata.uid);
  }

  /**
   * Accepts the cloud's notice from the machine itself, once per cell. So a hostile cell that repeatedly reports other times
   * has no further effect.
   */
  #takeNotice({ machineEndsAt: endsAt }: PodReport): void {
    const { cell } = this.state;
    const token = cell.object?.metadata.uid;
    if (endsAt === undefined || token === undefined || this.#heardCell === token) return;
    this.#heardCell = token;
    const { clock, logger } = this.#options;
    if (endOf(endsAt) - clock.now() > longestNoticeMs)
      logger.warn("Ignored what a cell says of its machine's end: it is too far away", { endsAt });
    else this.interrupted({ instance: { token, id: cell.status.instanceID ?? "" }, endsAt });
  }

  /** The connection to the agent ended. */
  agentLost(): void {
    this.#reconciler.apply({ kind: "agentLost" });
  }

  /** Ends the pause after a failed start, because its cause may have been corrected. */
  retryStart(): void {
    for (const kind of ["createCell", "launch"] as const) this.#reconciler.tryNow(kind);
  }

  /** Ends the worker and its connection; the cell and the pod stay as they are. */
  async stop(): Promise<void> {
    const stopped = this.#reconciler.stop();
    await this.state.agent.client?.[Symbol.asyncDispose]();
    await stopped;
  }

  /** Applies a request. If it changes something, it ends the pause after a failure. */
  #request(change: CellChange<"applied" | "removed" | "finished">): void {
    const { pod, end } = this.state;
    this.#reconciler.apply(change);
    const hasChanged = this.state.pod.wanted !== pod.wanted || this.state.end !== end;
    if (change.kind === "applied" || hasChanged) this.#reconciler.retryNow();
  }

  /** Connects. Closes a connection that was made after the step was aborted. */
  async #connect(
    ...[step, context]: Parameters<CellSteps["executors"]["connect"]>
  ): Promise<CellChange | undefined> {
    const change = await this.#options.steps.executors.connect(step, context);
    if (!context.signal.aborted || change?.kind !== "connected") return change;
    await change.client[Symbol.asyncDispose]();
    throw context.signal.reason;
  }

  #changed(state: CellState): void {
    const { agent, wait } = state;
    if (agent.client && agent.client !== this.#followed) this.#follow(agent.client);
    if (agent.areLogsSaved) this.#logsSaved.resolve();
    if (wait.reason && wait.reported !== undefined && wait.reported !== this.#reportedWait) {
      const { reason, message, isTurn } = wait.reason;
      this.#options.onEvent(isTurn === true ? "Normal" : "Warning", reason, message);
    }
    this.#reportedWait = wait.reported;
    if (hasNewConditions(this.#status, state.cell.status)) this.#options.steps.noteStatus(state);
    this.#status = state.cell.status;
    this.#options.onChange(state);
  }

  #follow(client: AgentClient): void {
    this.#followed = client;
    void this.#options.steps.followAgent(client, {
      ...this.#view,
      onReport: (report) => this.reportSeen(report),
      onLost: () => {
        if (this.state.agent.client === client) this.agentLost();
      },
    });
  }

  get #view() {
    return {
      state: () => this.state,
      change: (change: CellChange) => this.#reconciler.apply(change),
    };
  }

  #failed({ step, failures, error }: StepFailure<CellStep>): CellChange | undefined {
    const fields = { step: step.kind, attempt: failures - 1, err: error };
    const { logger, steps } = this.#options;
    logger.warn("Could not do a step of a cell", fields);
    steps.outages.failed(step.kind, error, this, {
      retry: () => this.#reconciler.tryNow(step.kind),
      isCostly: isCostly(step, this.state.cell.object),
    });
    // A pod must not wait for its instance's tags.
    if (error instanceof NoEffectError || step.kind === "tagInstance") return undefined;
    return { kind: "waits", ...problemOf(error) };
  }
}

/** When an instance ends, milliseconds since the Unix epoch; -Infinity if the time is invalid. */
function endOf(endsAt: string): number {
  const at = Date.parse(endsAt);
  return Number.isNaN(at) ? -Infinity : at;
}

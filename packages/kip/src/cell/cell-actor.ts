import { backoffDelay, errorText, isCodedError, pause, type Clock, type Logger } from "@kip/base";
import type { AgentClient, PodReport } from "@kip/agent-api";
import type { Instance, InterruptionNotice } from "@kip/cloud";
import type { Pod } from "@kip/k8s-types";
import type { ResolvedPod } from "@kip/virtual-kubelet";
import { interruptionMessage } from "../status/disruption.ts";
import { restrictReportToPod } from "../status/restrict-report.ts";
import { reportedEnd } from "../status/pod-end.ts";
import type { Cell } from "../state/cell.ts";
import { newCellMemory, type CellMemory, type PodRef } from "../state/cell-memory.ts";
import { planCell } from "./cell-plan.ts";
import type { CellStep } from "../state/cell-step.ts";
import type { CellSteps } from "./steps/cell-steps.ts";
import {
  cellTimes,
  hasEnded,
  observeCell,
  shortestUsefulConnectionMs,
  type CellLimits,
} from "./observe-cell.ts";
import { deadlineExceeded } from "../state/pod-deadline.ts";

/** What a {@link CellActor} works with. */
export interface CellActorOptions {
  readonly podRef: PodRef;
  readonly steps: CellSteps;
  readonly limits: CellLimits;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The pod's status may have changed. */
  readonly onChange: (memory: CellMemory) => void;
  /** A problem of the pod, for an event. */
  readonly onProblem: (memory: CellMemory, reason: string, message: string) => void;
}

const backoff = { initialMs: 500, maxMs: 300_000 };
/** How often a step may follow itself without a pause: its cause may change while it runs. */
const immediateRepeats = 3;
/** A timer for longer than 24.8 days would end at once; waking once a day is cheap. */
const longestSleepMs = 86_400_000;
/** The loss of a cell that had its pod for this long, milliseconds, resets the count of losses. */
const steadyCellMs = 600_000;

/**
 * The one worker of a pod: observes, plans the next step, does it, and again, until pod and cell are
 * settled. Actors of different pods never wait for each other.
 *
 * Invariants: steps run one at a time. A step is aborted as soon as the plan would not choose it any
 * more. The next step follows from what is observed alone, whatever happened in between.
 */
export class CellActor {
  readonly memory: CellMemory;
  readonly #options: CellActorOptions;
  #settled = Promise.withResolvers<void>();
  #isSettled = false;
  readonly #logsSaved = Promise.withResolvers<void>();
  #change = Promise.withResolvers<void>();
  #work: Promise<void> = Promise.resolve();
  #isRunning = false;
  #isStopped = false;
  /** Failures since the last progress; connections that soon ended, and cells lost, in a row. */
  #failures = 0;
  #shortConnections = 0;
  #consecutiveLosses = 0;
  /** The step that was done last, and how often in a row: one that changes nothing is not repeated at once. */
  #last: { kind: CellStep["kind"]; count: number } | undefined;
  /** The reason for waiting that was reported last, without its figures. */
  #lastReportedWait: string | undefined;
  #pause: AbortController | undefined;

  constructor(options: CellActorOptions) {
    this.#options = options;
    this.memory = newCellMemory(options.podRef);
  }

  /** Resolves when pod and cell are settled and nothing is left to do; new work makes a new promise. */
  get settled(): Promise<void> {
    return this.#settled.promise;
  }

  /** Resolves when the logs of a finished pod have been saved, as far as possible. */
  get logsSaved(): Promise<void> {
    return this.#logsSaved.promise;
  }

  /** The pod should run, in this form. */
  apply(resolved: ResolvedPod): void {
    const { memory } = this;
    memory.resolved = resolved;
    memory.pod = resolved.pod;
    if (memory.report) memory.report = restrictReportToPod(memory.report, resolved.pod);
    memory.isDispatched = false;
    if (memory.end) this.#options.onChange(memory);
    this.#retryNow();
  }

  /** The pod should stop; a shorter grace period than before replaces that one. */
  remove(graceSeconds: number, pod?: Pod): void {
    const { memory } = this;
    const { wanted } = memory;
    memory.pod = pod ?? memory.pod;
    // A pod that ended before kip was started again, and whose end is not in the API yet.
    if (memory.end && pod) this.#options.onChange(memory);
    if (wanted.kind === "remove" && wanted.graceSeconds <= graceSeconds) return;
    this.memory.wanted = { kind: "remove", graceSeconds };
    this.memory.removeSince = this.#options.clock.monotonic();
    this.#retryNow();
  }

  /** The pod is terminal in the API, written there by kip or another client: what still runs of it is stopped. */
  finish(pod?: Pod): void {
    const { memory } = this;
    memory.pod = pod ?? memory.pod;
    if (memory.isPodFinished && memory.isEndInApi) return;
    memory.isPodFinished = true;
    memory.isEndInApi = true;
    this.#retryNow();
  }

  /** The API's view of the cell. */
  cellSeen(cell: Cell | undefined): void {
    const { memory } = this;
    // The watch lags behind our own writes: a Cell that was removed must not come back.
    if (!cell || memory.goneCells.has(cell.metadata.uid ?? "")) return;
    if (memory.cell && memory.cell.metadata.uid !== cell.metadata.uid) return;
    memory.cell ??= cell;
    memory.isCellDeleted ||= cell.metadata.deletionTimestamp !== undefined;
    if (memory.status.phase === "Pending" && cell.status) memory.status = cell.status;
    memory.attempt = cell.spec.attempt;
    memory.restartCounts = cell.spec.restartCounts;
    memory.ended = cell.spec.ended ?? {};
    const { podEnd } = memory.status;
    if (podEnd && !memory.end)
      Object.assign(memory, { end: podEnd, isEndRecorded: true, isPodFinished: true });
    this.changed();
  }

  /** The Cell was deleted without its finalizer, by another client: its instance may still run. */
  cellGone(cell: Cell): void {
    if (this.memory.cell?.metadata.uid !== cell.metadata.uid) return;
    this.memory.isCellDeleted = true;
    this.changed();
  }

  /** The cloud reported that the instance ended. */
  instanceEnded(instance: Instance): void {
    if (instance.token !== this.memory.cell?.metadata.uid) return;
    this.memory.instanceState = "gone";
    this.#options.onChange(this.memory);
    this.changed();
  }

  /** The cloud announced that it takes the instance back. {@link CellActor.instanceEnded} reports its end. */
  interrupted({ instance, endsAt }: InterruptionNotice): void {
    const { memory } = this;
    if (instance.token !== memory.cell?.metadata.uid || memory.interruption?.endsAt === endsAt)
      return;
    memory.interruption = { instanceId: instance.id, endsAt };
    const { onProblem, onChange } = this.#options;
    onProblem(memory, "CellInterrupted", interruptionMessage(instance.id, endsAt));
    onChange(memory);
  }

  /** The agent sent a report. */
  reportSeen(report: PodReport): void {
    if (report.podUid !== this.memory.podRef.uid) return;
    const { memory } = this;
    memory.report = restrictReportToPod(report, memory.pod);
    this.#options.steps.noteReport(memory);
    // The end of a pod that was asked to stop is not its own.
    const isOwnEnd = memory.drainSent === undefined && memory.status.phase !== "Draining";
    if (hasEnded(report) && isOwnEnd) {
      memory.isPodFinished = true;
      if (memory.pod && !memory.isEndRecorded)
        memory.end = reportedEnd(memory.report, memory, memory.pod);
    }
    this.#options.onChange(memory);
    this.changed();
  }

  /** The pod's status may have changed in the course of a step. */
  statusChanged(): void {
    this.#options.onChange(this.memory);
  }

  /** Reports why the current step waits: as a condition of the pod, and as an event if the reason has changed. */
  reportWait(reason: string, message: string): void {
    const { onProblem, onChange } = this.#options;
    // The figures in a message (free memory, place in the queue) may differ each time: they do not count as a change.
    const comparable = `${reason} ${message.replace(/[\d.]+/g, "#")}`;
    const hasChanged = this.#lastReportedWait !== comparable;
    this.#lastReportedWait = comparable;
    this.memory.waitReason = { reason, message };
    if (hasChanged) onProblem(this.memory, reason, message);
    onChange(this.memory);
  }

  /** A connection to the agent was made. */
  agentFound(agent: AgentClient): void {
    this.memory.agent = agent;
    // In a series of short connections the time out of reach counts from the first loss.
    if (this.#shortConnections === 0) this.memory.unreachableSince = undefined;
    this.memory.connectedAt = this.#options.clock.monotonic();
  }

  /** The connection to the agent ended. */
  agentLost(): void {
    const { memory } = this;
    const now = this.#options.clock.monotonic();
    const isShort = now - (memory.connectedAt ?? 0) < shortestUsefulConnectionMs;
    this.#shortConnections = isShort ? this.#shortConnections + 1 : 0;
    // An agent that answers only for moments counts as out of reach.
    if (!isShort || memory.unreachableSince === undefined) memory.unreachableSince = now;
    memory.agent = undefined;
    memory.isDispatched = false;
    memory.drainSent = undefined;
    memory.drainSentAt = undefined;
    this.changed();
  }

  /** Something changed: plan again. Starts the worker if it is idle. */
  changed(): void {
    this.#change.resolve();
    if (this.#isRunning || this.#isStopped) return;
    this.#isRunning = true;
    if (this.#isSettled) {
      this.#isSettled = false;
      this.#settled = Promise.withResolvers();
    }
    this.#work = this.#run();
  }

  /** Ends the worker and its connection; the cell and the pod stay as they are. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.changed();
    await this.memory.agent?.[Symbol.asyncDispose]();
    await this.#work;
    // The last step may have connected meanwhile.
    await this.memory.agent?.[Symbol.asyncDispose]();
  }

  /** A new request ends the pause after a failure. */
  #retryNow(): void {
    this.#failures = 0;
    this.#lastReportedWait = undefined;
    this.#pause?.abort();
    this.changed();
  }

  /** The step that follows from what is observed now. */
  #plan(): CellStep {
    return planCell(observeCell(this.memory, this.#options.limits, this.#options.clock));
  }

  /** Ends a pod that has waited for its cell for longer than it may be active. */
  #expire(): void {
    if (this.#times().deadlineIn > 0) return;
    this.memory.isPodFinished = true;
    this.memory.end = { phase: "Failed", ...deadlineExceeded };
    this.reportWait(deadlineExceeded.reason, deadlineExceeded.message);
  }

  #times(): ReturnType<typeof cellTimes> {
    return cellTimes(this.memory, this.#options.limits, this.#options.clock);
  }

  async #run(): Promise<void> {
    try {
      await this.#loop();
    } catch (error) {
      // A bug in one actor must not affect others; the next change starts this one again.
      this.#options.logger.error("Stopped the worker of a pod after an unexpected error", {
        err: error,
      });
      this.#isRunning = false;
    }
  }

  async #loop(): Promise<void> {
    for (;;) {
      this.#change = Promise.withResolvers();
      this.#expire();
      const step = this.#plan();
      if (this.#isStopped || step.kind === "done") break;
      if (step.kind !== "wait") await this.#executeStep(step);
      else {
        this.#last = undefined;
        await this.#untilChange(undefined);
      }
    }
    this.#isRunning = false;
    if (this.#isStopped) return;
    this.#isSettled = true;
    this.#settled.resolve();
  }

  async #executeStep(step: CellStep): Promise<void> {
    const repeats = this.#repeatsBefore(step);
    if (repeats > 0 && !(await this.#backOff(step, repeats - 1))) return;
    const abort = new AbortController();
    const result = this.#options.steps.execute(step, this, abort.signal).then(
      () => ({ error: undefined }),
      (error: unknown) => ({ error }),
    );
    const outcome = await this.#whilePlanned(step, result, abort);
    if (outcome.error === undefined) {
      this.#stepDone(step);
      this.#options.onChange(this.memory);
      return;
    }
    if (abort.signal.aborted) return;
    await this.#reportFailure(step, outcome.error);
  }

  /** How often in a row this step had no effect, although it did not fail. */
  #repeatsBefore({ kind }: CellStep): number {
    const inRow = this.#last?.kind === kind ? this.#last.count - immediateRepeats : 0;
    if (kind === "createCell") return Math.max(inRow, this.#consecutiveLosses);
    return Math.max(0, inRow, kind === "connect" ? this.#shortConnections : 0);
  }

  #stepDone(step: CellStep): void {
    const { memory } = this;
    const count = this.#last?.kind === step.kind ? this.#last.count : 0;
    this.#last = { kind: step.kind, count: count + 1 };
    // Observing the instance does not count as progress: the launch that failed is still ahead.
    if (step.kind !== "observeInstance") {
      this.#failures = 0;
      this.#lastReportedWait = undefined;
    }
    if (step.kind === "saveLogs") this.#logsSaved.resolve();
    if (step.kind === "dispatch") memory.dispatchedAt ??= this.#options.clock.monotonic();
    if (step.kind !== "deleteCell") return;
    const now = this.#options.clock.monotonic();
    const isSteady = now - (memory.lastDispatchedAt ?? now) >= steadyCellMs;
    this.#consecutiveLosses = step.isLost ? (isSteady ? 0 : this.#consecutiveLosses) + 1 : 0;
    this.#shortConnections = 0;
  }

  /** Resolves at the next change, when time alone changes the plan, or with the value of `result`. */
  async #untilChange<T>(result: Promise<T> | undefined): Promise<T | undefined> {
    const timer = new AbortController();
    const ms = Math.min(...Object.values(this.#times()).filter((each) => each > 0));
    const events: Promise<T | undefined>[] = [this.#change.promise.then(() => undefined)];
    if (result) events.unshift(result);
    if (Number.isFinite(ms))
      events.push(
        this.#options.clock.sleep(Math.min(ms, longestSleepMs), timer.signal).then(() => undefined),
      );
    try {
      return await Promise.race(events);
    } finally {
      timer.abort();
    }
  }

  /** Waits for a result; aborts its step when the plan changes meanwhile. */
  async #whilePlanned<T>(step: CellStep, result: Promise<T>, abort: AbortController): Promise<T> {
    const isFinal = result.then((value) => ({ value }));
    for (;;) {
      const first = await this.#untilChange(isFinal);
      if (first) return first.value;
      this.#change = Promise.withResolvers();
      this.#expire();
      if (this.#isStopped || this.#plan().kind !== step.kind) abort.abort();
    }
  }

  async #reportFailure(step: CellStep, error: unknown): Promise<void> {
    const { logger } = this.#options;
    const reason = isCodedError(error) ? problemReason(error.code) : "CellStepFailed";
    const remedy = isCodedError(error) && error.remedy !== undefined ? `. ${error.remedy}` : "";
    const message = `${errorText(error)}${remedy}`;
    logger.warn("Could not do a step of a cell", {
      step: step.kind,
      attempt: this.#failures,
      err: error,
    });
    this.reportWait(reason, message);
    this.#last = undefined;
    await this.#backOff(step, this.#failures++, error);
  }

  /** Pauses until the back-off is over, the plan changes or a new request comes. Resolves with whether the step is still planned. */
  async #backOff(step: CellStep, attempt: number, error?: unknown): Promise<boolean> {
    const abort = new AbortController();
    this.#pause = abort;
    const delayMs = backoffDelay(attempt, backoff, error);
    await this.#whilePlanned(step, pause(delayMs, this.#options.clock, abort.signal), abort);
    this.#pause = undefined;
    return !this.#isStopped && this.#plan().kind === step.kind;
  }
}

/** `CLOUD_NO_CAPACITY` → `CloudNoCapacity`: event reasons are words in camel case. */
function problemReason(code: string): string {
  return code
    .toLowerCase()
    .split("_")
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join("");
}

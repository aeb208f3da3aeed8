import { backoffDelay, errorText, isKipError, type Clock, type Logger } from "@kip/base";
import type { PodReport } from "@kip/agent-api";
import type { Instance } from "@kip/cloud";
import type { ResolvedPod } from "@kip/virtual-kubelet";
import type { Cell } from "./cell.ts";
import { newCellMemory, type CellMemory, type PodRef } from "./cell-memory.ts";
import { planCell, type CellObservation, type CellStep } from "./cell-plan.ts";
import type { CellSteps } from "./cell-steps.ts";

/** Time limits of a cell, milliseconds. */
export interface CellLimits {
  /** From launch to the agent's first answer. @default 20 minutes, as in the original */
  readonly bootMs: number;
  /** How long an agent may be out of reach before its cell counts as lost. @default 90,000 */
  readonly healthyMs: number;
  /** What stopping may take beyond the pod's grace period. @default 15,000 */
  readonly drainLeewayMs: number;
}

/** What a {@link CellActor} works with. */
export interface CellActorOptions {
  readonly podRef: PodRef;
  readonly steps: CellSteps;
  readonly limits: CellLimits;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The pod's status may have changed. */
  readonly onChange: (memory: CellMemory) => void;
  /** Something about the pod that belongs into an event. */
  readonly onProblem: (memory: CellMemory, reason: string, message: string) => void;
}

const backoff = { initialMs: 500, maxMs: 300_000 };

/**
 * The one worker of a pod: observes, plans the next step, does it, and again, until pod and cell are
 * settled. Actors of different pods never wait for each other.
 *
 * Invariants: steps run one at a time. A step is aborted as soon as the plan would not choose it any
 * more. Whatever happened in between, the next step follows from what is observed alone.
 */
export class CellActor {
  readonly memory: CellMemory;
  readonly #options: CellActorOptions;
  readonly #settled = Promise.withResolvers<void>();
  #change = Promise.withResolvers<void>();
  #isRunning = false;
  #isStopped = false;
  #failures = 0;

  constructor(options: CellActorOptions) {
    this.#options = options;
    this.memory = newCellMemory(options.podRef);
  }

  /** Resolves when pod and cell are settled and nothing is left to do. */
  get settled(): Promise<void> {
    return this.#settled.promise;
  }

  /** The pod is wanted, in this form. */
  apply(resolved: ResolvedPod): void {
    this.memory.resolved = resolved;
    this.memory.isDispatched = false;
    this.changed();
  }

  /** The pod is to be stopped; a shorter grace period than before replaces it. */
  remove(graceSeconds: number): void {
    const { wanted } = this.memory;
    if (wanted.kind === "remove" && wanted.graceSeconds <= graceSeconds) return;
    this.memory.wanted = { kind: "remove", graceSeconds };
    this.memory.removeSince = this.#options.clock.monotonic();
    this.#wakeAfter(graceSeconds * 1000 + this.#options.limits.drainLeewayMs);
    this.changed();
  }

  /** The API's view of the cell. */
  cellSeen(cell: Cell | undefined): void {
    const { memory } = this;
    if (!cell) return;
    if (memory.cell && memory.cell.metadata.uid !== cell.metadata.uid) return;
    memory.cell ??= cell;
    memory.isCellDeleted = cell.metadata.deletionTimestamp !== undefined;
    if (memory.status.phase === "Pending" && cell.status) memory.status = cell.status;
    memory.attempt = cell.spec.attempt;
    memory.restartCounts = cell.spec.restartCounts;
    this.changed();
  }

  /** The cloud says that the instance ended. */
  instanceEnded(instance: Instance): void {
    if (instance.token !== this.memory.cell?.metadata.uid) return;
    this.memory.instanceState = "gone";
    this.changed();
  }

  /** The agent sent a report. */
  reportSeen(report: PodReport): void {
    if (report.podUid !== this.memory.podRef.uid) return;
    this.memory.report = report;
    this.#options.steps.noteStart(this.memory);
    if (report.phase === "Succeeded" || report.phase === "Failed") {
      if (this.memory.wanted.kind === "run") this.memory.isPodFinished = true;
    }
    this.#options.onChange(this.memory);
    this.changed();
  }

  /** The connection to the agent ended. */
  agentLost(): void {
    this.memory.agent = undefined;
    this.memory.isDispatched = false;
    this.memory.drainSent = undefined;
    this.memory.unreachableSince = this.#options.clock.monotonic();
    this.#wakeAfter(this.#options.limits.healthyMs);
    this.changed();
  }

  /** Something changed: plan again. Starts the worker if it is not at work. */
  changed(): void {
    this.#change.resolve();
    if (this.#isRunning || this.#isStopped) return;
    this.#isRunning = true;
    void this.#run();
  }

  /** Ends the worker and its connection; the cell and the pod stay as they are. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.changed();
    await this.memory.agent?.[Symbol.asyncDispose]();
  }

  /** What {@link planCell} decides on. */
  observe(): CellObservation {
    const { memory } = this;
    return {
      wanted: memory.wanted,
      isPodFinished: memory.isPodFinished,
      cell: memory.cell,
      isCellDeleted: memory.isCellDeleted,
      instance: memory.instanceState,
      isAgentConnected: memory.agent !== undefined,
      isDispatched: memory.isDispatched,
      drainSent: memory.drainSent,
      isDrained: memory.drainSent !== undefined && isDrained(memory.report),
      areLogsSaved: memory.areLogsSaved,
      wasClaimed: ["Claimed", "Draining"].includes(memory.status.phase),
      isDrainOverdue: this.#isOverdue(),
      isUnhealthy: this.#isUnhealthy(),
    };
  }

  #isOverdue(): boolean {
    const { wanted, removeSince } = this.memory;
    if (wanted.kind !== "remove" || removeSince === undefined) return false;
    const limit = wanted.graceSeconds * 1000 + this.#options.limits.drainLeewayMs;
    return this.#options.clock.monotonic() - removeSince >= limit;
  }

  #isUnhealthy(): boolean {
    const { unreachableSince, status } = this.memory;
    if (unreachableSince === undefined) return false;
    const { bootMs, healthyMs } = this.#options.limits;
    const limit = ["Claimed", "Draining"].includes(status.phase) ? healthyMs : bootMs;
    return this.#options.clock.monotonic() - unreachableSince >= limit;
  }

  async #run(): Promise<void> {
    for (;;) {
      this.#change = Promise.withResolvers();
      const step = planCell(this.observe());
      if (this.#isStopped || step.kind === "done") break;
      if (step.kind === "wait") await this.#change.promise;
      else await this.#do(step);
    }
    this.#isRunning = false;
    if (!this.#isStopped) this.#settled.resolve();
  }

  async #do(step: CellStep): Promise<void> {
    const abort = new AbortController();
    const result = this.#options.steps.execute(step, this, abort.signal).then(
      () => ({ error: undefined }),
      (error: unknown) => ({ error }),
    );
    const outcome = await this.#whilePlanned(step, result, abort);
    if (outcome.error === undefined) {
      this.#failures = 0;
      this.#options.onChange(this.memory);
      return;
    }
    if (abort.signal.aborted) return;
    await this.#report(step, outcome.error);
  }

  /** Waits for a result; aborts it when the plan changes meanwhile. */
  async #whilePlanned<T>(step: CellStep, result: Promise<T>, abort: AbortController): Promise<T> {
    const isFinal = result.then((value) => ({ value }));
    for (;;) {
      const first = await Promise.race([isFinal, this.#change.promise]);
      if (first) return first.value;
      this.#change = Promise.withResolvers();
      if (this.#isStopped || planCell(this.observe()).kind !== step.kind) abort.abort();
    }
  }

  async #report(step: CellStep, error: unknown): Promise<void> {
    const { clock, logger, onProblem, onChange } = this.#options;
    const reason = isKipError(error) ? problemReason(error.code) : "CellStepFailed";
    const remedy = isKipError(error) && error.remedy !== undefined ? `. ${error.remedy}` : "";
    const message = `${errorText(error)}${remedy}`;
    const isNews = this.memory.waitingFor?.message !== message;
    this.memory.waitingFor = { reason, message };
    logger.warn("Step of a cell failed", { step: step.kind, attempt: this.#failures, err: error });
    if (isNews) onProblem(this.memory, reason, message);
    onChange(this.memory);
    const abort = new AbortController();
    const pause = clock
      .sleep(backoffDelay(this.#failures++, backoff), abort.signal)
      .catch(() => {});
    await this.#whilePlanned(step, pause, abort);
  }

  #wakeAfter(ms: number): void {
    void this.#options.clock.sleep(ms).then(() => this.changed());
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

function isDrained(report: PodReport | undefined): boolean {
  if (!report) return false;
  const all = [...report.initContainers, ...report.containers, ...report.ephemeralContainers];
  return all.every((container) => !container.running);
}

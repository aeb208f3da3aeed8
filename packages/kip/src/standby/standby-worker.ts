import type { Clock, Logger } from "@kip/base";
import type { AgentClient } from "@kip/agent-api";
import { NoEffectError, Reconciler, type StepFailure } from "@kip/reconcile";
import { hasNewConditions } from "../cell/cell-conditions.ts";
import { standbyPlan } from "../cell/cell-plan.ts";
import type { CellStep, CellStepArgs, StandbySteps } from "../cell/cell-step.ts";
import { doubtfulInstance, type CellLimits } from "../cell/observe-cell.ts";
import { reduceCell } from "../cell/reduce-cell.ts";
import { isCostly } from "../cell/outages.ts";
import { stepBackoff } from "../cell/step-backoff.ts";
import { dumpWorker, type DumpedWorker } from "../inspect/node-dump.ts";
import type { CellChange } from "../state/cell-change.ts";
import { newCellState, type CellState } from "../state/cell-state.ts";
import type { Cell, CellStatus, StandbyCell } from "../state/cell.ts";
import { problemOf } from "../errors.ts";

/** Options of {@link StandbyWorker}. */
export interface StandbyWorkerOptions<C extends Cell | StandbyCell> {
  readonly cell: C;
  readonly steps: StandbySteps;
  readonly limits: CellLimits;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * The worker of one cell without a pod. Starts its instance, keeps a connection to its agent, and ends the cell when requested,
 * or when the agent or the instance is lost. It does not replace a lost cell.
 */
export class StandbyWorker<C extends Cell | StandbyCell = StandbyCell> {
  readonly #options: StandbyWorkerOptions<C>;
  readonly #reconciler: Reconciler<CellStepArgs, CellState, CellChange>;
  readonly #released = Promise.withResolvers<void>();
  #cell: C;
  #followed: AgentClient | undefined;
  #isReleased = false;
  #status: CellStatus | undefined;

  constructor(options: StandbyWorkerOptions<C>) {
    const { cell, steps, limits, clock, logger } = options;
    this.#options = options;
    this.#cell = cell;
    const { name, uid } = cell.metadata;
    this.#reconciler = new Reconciler<CellStepArgs, CellState, CellChange>({
      // Placeholder, because there is no pod yet.
      initial: newCellState({ namespace: "", name, uid }, ""),
      plan: standbyPlan(limits),
      reduce: reduceCell,
      executors: { ...steps.executors, connect: async (...args) => await this.#connect(...args) },
      backoff: stepBackoff,
      isProgress: ({ kind }) => kind !== "observeInstance",
      onChange: (state) => this.#changed(state),
      onFailure: (failure) => this.#failed(failure),
      clock,
      logger: logger.with({ cell: name }),
    });
    this.#reconciler.apply({ kind: "cellSeen", cell });
  }

  /** The Cell as last seen in the API. */
  get cell(): C {
    return this.#cell;
  }

  /** What the worker is doing, for people. */
  dump(): DumpedWorker {
    return dumpWorker(this.#reconciler.state, this.#reconciler.inspect());
  }

  /** Whether a pod can take the cell: its agent is connected, and it is ready in the API. */
  get isReady(): boolean {
    const { agent, machine } = this.#reconciler.state;
    const isRunning = machine.state === "running" && agent.client !== undefined;
    return isRunning && !this.isEnding && this.#cell.status?.phase === "Ready";
  }

  /** Whether the cell ended without a request from here. */
  get wasLost(): boolean {
    return this.#reconciler.state.pod.wanted.kind === "run";
  }

  /** Whether the cell is being ended. */
  get isEnding(): boolean {
    const { pod, cell, machine } = this.#reconciler.state;
    return (
      this.#isReleased ||
      pod.wanted.kind === "remove" ||
      cell.isDeleted ||
      cell.status.phase === "Terminating" ||
      machine.state === "stopping" ||
      machine.state === "gone" ||
      machine.isRefused === true
    );
  }

  /**
   * Resolves when the instance has ended and its Cell is deleted. Does not resolve once the cell is released or the worker is
   * stopped.
   */
  get settled(): Promise<void> {
    return this.#reconciler.settled;
  }

  /** Ends the cell. */
  end(): void {
    this.#reconciler.apply({ kind: "removed", graceSeconds: 0 });
  }

  /** Call this with the current Cell in the API. */
  cellSeen(cell: C): void {
    this.#cell = cell;
    this.#reconciler.apply({ kind: "cellSeen", cell });
  }

  /** Call this when another client has deleted the Cell without its finalizer. Its instance may still be running. */
  cellGone(): void {
    this.#reconciler.apply({ kind: "cellGone", uid: this.#cell.metadata.uid });
  }

  /** Call this when the cloud reported that the instance ended. */
  instanceEnded(): void {
    this.#reconciler.apply({ kind: "instanceEnded", token: this.#cell.metadata.uid });
  }

  /** See {@link doubtfulInstance}. */
  get doubtful(): string | undefined {
    const { limits, clock } = this.#options;
    return doubtfulInstance(this.#reconciler.state, limits, clock.monotonic());
  }

  /** Call this when the cloud has reported which instances run. */
  cloudAsked(running: ReadonlySet<string>): void {
    const token = this.doubtful;
    if (token !== undefined && !running.has(token))
      this.#reconciler.apply({ kind: "machine", state: "unknown" });
  }

  /** Releases the cell to the pod that has claimed it. Returns the connection to its agent if there is one. */
  release(): AgentClient | undefined {
    const { client } = this.#reconciler.state.agent;
    this.#isReleased = true;
    this.#released.resolve();
    void this.#reconciler.stop();
    return client;
  }

  /** Stops the worker and closes its connection. The cell stays as it is. */
  async stop(): Promise<void> {
    this.#released.resolve();
    const stopped = this.#reconciler.stop();
    await this.#reconciler.state.agent.client?.[Symbol.asyncDispose]();
    await stopped;
  }

  /** Connects. Closes a connection that was made when it was no longer wanted. */
  async #connect(
    ...[step, context]: Parameters<StandbySteps["executors"]["connect"]>
  ): Promise<CellChange | undefined> {
    const change = await this.#options.steps.executors.connect(step, context);
    if (change?.kind !== "connected") return change;
    const hasPod = change.generation !== undefined || change.report !== undefined;
    if (!context.signal.aborted && !hasPod) return change;
    await change.client[Symbol.asyncDispose]();
    context.signal.throwIfAborted();
    this.#options.logger.warn("Ended a standby cell whose agent says that it has a pod", {
      cell: this.#cell.metadata.name,
    });
    return { kind: "removed", graceSeconds: 0 };
  }

  #changed(state: CellState): void {
    const { client } = state.agent;
    if (client && client !== this.#followed) this.#follow(client);
    // Once a pod has the cell, the pod's worker writes them.
    if (hasNewConditions(this.#status, state.cell.status) && !this.#isReleased)
      this.#options.steps.noteStatus(state);
    this.#status = state.cell.status;
  }

  #follow(client: AgentClient): void {
    this.#followed = client;
    void client.closed.then(() => {
      if (this.#reconciler.state.agent.client === client)
        this.#reconciler.apply({ kind: "agentLost" });
    });
    void this.#options.steps.keepIdentity(client, {
      state: () => this.#reconciler.state,
      change: (change) => this.#reconciler.apply(change),
      isReleased: () => this.#isReleased,
      released: this.#released.promise,
    });
  }

  #failed({ step, failures, error }: StepFailure<CellStep>): CellChange | undefined {
    const fields = { cell: this.#cell.metadata.name, step: step.kind, attempt: failures - 1 };
    const { logger, steps } = this.#options;
    logger.warn("Could not do a step of a standby cell", { ...fields, err: error });
    steps.outages.failed(step.kind, error, this, {
      retry: () => this.#reconciler.tryNow(step.kind),
      isCostly: isCostly(step, this.#cell),
    });
    if (error instanceof NoEffectError) return undefined;
    return { kind: "waits", ...problemOf(error) };
  }
}

import type { CellMemory } from "../../state/cell-memory.ts";
import type { CellStep } from "../../state/cell-step.ts";
import { connect } from "./connect-agent.ts";
import { createCell } from "./create-cell.ts";
import { dispatch, noteReport } from "./dispatch-pod.ts";
import { deleteCell, drain, saveLogs, terminate } from "./end-cell.ts";
import { awaitEndInApi, endPod, recordEnd } from "./end-pod.ts";
import { awaitRunning, launch, observeInstance } from "./start-instance.ts";
import { StepContext, type CellStepsOptions, type StepActor } from "./step-context.ts";

type Executors = {
  readonly [K in CellStep["kind"]]: (
    context: StepContext,
    actor: StepActor,
    signal: AbortSignal,
    step: Extract<CellStep, { kind: K }>,
  ) => Promise<void>;
};

/** The executor of each kind of step, in the order of a cell's life. */
const executors: Executors = {
  createCell: (context, actor) => createCell(context, actor),
  observeInstance: (context, actor) => observeInstance(context, actor.memory),
  launch: (context, actor, signal) => launch(context, actor, signal),
  awaitRunning: (context, actor, signal) => awaitRunning(context, actor.memory, signal),
  connect: (context, actor, signal) => connect(context, actor, signal),
  dispatch: (context, actor, signal) => dispatch(context, actor.memory, signal),
  drain: (context, actor, signal, step) => drain(context, actor.memory, step.graceSeconds, signal),
  endPod: (context, actor) => endPod(context, actor.memory),
  recordEnd: (context, actor) => recordEnd(context, actor.memory),
  saveLogs: (context, actor, signal) => saveLogs(context, actor.memory, signal),
  terminate: (context, actor, signal) => terminate(context, actor, signal),
  awaitEndInApi: (context, actor, signal) => awaitEndInApi(context, actor, signal),
  deleteCell: (context, actor, _signal, step) => deleteCell(context, actor, step.isLost),
  wait: async () => {},
  done: async () => {},
};

/** Executes the steps of {@link planCell}, each safe to repeat. */
export class CellSteps {
  readonly #context: StepContext;

  constructor(options: CellStepsOptions) {
    this.#context = new StepContext(options);
  }

  /** Executes one step. @throws the error that made it fail; the actor repeats it with a back-off */
  async execute(step: CellStep, actor: StepActor, signal: AbortSignal): Promise<void> {
    // The kind picks the executor that takes exactly this step.
    const executor = executors[step.kind] as (
      context: StepContext,
      actor: StepActor,
      signal: AbortSignal,
      step: CellStep,
    ) => Promise<void>;
    await executor(this.#context, actor, signal, step);
  }

  /** Takes over what a new report of the agent changes. */
  noteReport(memory: CellMemory): void {
    noteReport(this.#context, memory);
  }
}

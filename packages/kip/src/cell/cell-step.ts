import type { AgentClient, PodReport } from "@kip/agent-api";
import type { Executors, NoArguments, StepContext, StepOf } from "@kip/reconcile";
import type { CellChange } from "../state/cell-change.ts";
import type { CellState } from "../state/cell-state.ts";
import type { Outages } from "./outages.ts";

/** The kinds of steps of a cell, in the order of its life, with their arguments. */
export interface CellStepArgs {
  /** Choose a machine for the pod and write its Cell, or claim a standby cell. */
  readonly createCell: NoArguments;
  /** End the pod, because it has waited for its cell for longer than its `activeDeadlineSeconds`. */
  readonly expire: NoArguments;
  /** Ask the cloud whether the Cell has an instance: after a start of kip, or when an answer was lost. */
  readonly observeInstance: NoArguments;
  /** Ask the cloud to start the instance. */
  readonly launch: NoArguments;
  /** Wait until the instance runs and has its addresses. */
  readonly awaitRunning: NoArguments;
  /** Dial until the agent on the instance answers. */
  readonly connect: NoArguments;
  /** Send the pod, or its newest version, to the agent. */
  readonly dispatch: NoArguments;
  /** Tag the instance of a former standby cell with the labels of its pod. */
  readonly tagInstance: NoArguments;
  /** Look again for the profiles of system calls that were missing when the pod was sent. */
  readonly lookForProfiles: NoArguments;
  /** Have the pod's owner make a replacement: the cloud takes the instance back. */
  readonly evict: NoArguments;
  /** Wait until the evicted pod's replacement is ready, while the containers keep running. */
  readonly awaitReplacement: NoArguments;
  /** Mark the pod as not ready because the agent has not answered for a while, or undo that because it answers again. */
  readonly noteReach: { readonly isOutOfReach: boolean };
  /** Have the agent stop the pod's containers within this time. */
  readonly drain: { readonly graceSeconds: number };
  /** End the pod, because its cell is gone and it gets no other one. */
  readonly endPod: NoArguments;
  /** Write how the pod ended into its Cell. */
  readonly recordEnd: NoArguments;
  /** Copy the logs of a finished pod from its cell. */
  readonly saveLogs: NoArguments;
  /** Ask the cloud to end the instance, and wait for its end. */
  readonly terminate: NoArguments;
  /** Keep the Cell, whose instance is gone, until the API has the pod's end. */
  readonly awaitEndInApi: NoArguments;
  /** Delete the Cell. If the pod has lost it, the pod gets another one. */
  readonly deleteCell: { readonly isLost: boolean };
}

/** One action for a cell; each is safe to repeat. */
export type CellStep<K extends keyof CellStepArgs = keyof CellStepArgs> = StepOf<CellStepArgs, K>;

/** What a step sees and reports while it runs. */
export type CellContext = Pick<
  StepContext<CellState, CellChange, CellStep>,
  "state" | "change" | "signal" | "onReplanned"
>;

/** What the code that follows an agent may see of the state, and change. */
export interface AgentFollower extends Pick<CellContext, "state" | "change"> {
  readonly onReport: (report: PodReport) => void;
  /** The connection has ended. */
  readonly onLost: () => void;
}

/** What the code that renews the identity of a standby cell may see of the state, and change. */
export interface StandbyFollower extends Pick<CellContext, "state" | "change"> {
  /** Whether a pod has the cell: it is followed by that pod's worker. */
  readonly isReleased: () => boolean;
  /** Resolves when it is released. */
  readonly released: Promise<void>;
}

/** The work that the plan of a standby cell asks for. */
export interface StandbySteps {
  readonly executors: Executors<CellStepArgs, CellState, CellChange>;
  readonly outages: Pick<Outages, "failed">;
  /** Has the Cell's status written within a second. */
  noteStatus(state: CellState): void;
  /** Renews the identity of a cell until the connection ends or the cell is released. Never throws. */
  keepIdentity(client: AgentClient, follower: StandbyFollower): Promise<void>;
}

/** The work that a cell's plan asks for. */
export interface CellSteps {
  readonly executors: Executors<CellStepArgs, CellState, CellChange>;
  readonly outages: Pick<Outages, "failed">;
  /** Follows an agent's reports, and renews its identity, until the connection ends. Never throws. */
  followAgent(client: AgentClient, follower: AgentFollower): Promise<void>;
  /** Learns from the agent's newest report what is not part of the pod's status: image digests, and the times of the start. */
  noteReport(context: Pick<CellContext, "state" | "change">): void;
  /** Has the Cell's status written within a second. */
  noteStatus(state: CellState): void;
  /** Writes what is still to be written of Cells; for the end of kip, when the workers have stopped. */
  flush(): Promise<void>;
}

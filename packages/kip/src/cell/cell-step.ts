import type { AgentClient, PodReport } from "@kip/agent-api";
import type { Executors, NoArguments, StepContext, StepOf } from "@kip/reconcile";
import type { CellChange } from "../state/cell-change.ts";
import type { CellState } from "../state/cell-state.ts";

/** The kinds of steps of a cell, in the order of its life, with their arguments. */
export interface CellStepArgs {
  readonly createCell: NoArguments;
  /** The pod has waited for its cell for longer than it may be active. */
  readonly expire: NoArguments;
  readonly observeInstance: NoArguments;
  readonly launch: NoArguments;
  readonly awaitRunning: NoArguments;
  readonly connect: NoArguments;
  readonly dispatch: NoArguments;
  /** Give the instance of a cell that stood by the tags of its pod. */
  readonly tagInstance: NoArguments;
  /** Look again for the profiles of system calls that were missing when the pod was sent. */
  readonly lookForProfiles: NoArguments;
  /** Have the pod's owner make a replacement: the cloud takes the instance back. */
  readonly evict: NoArguments;
  /** Wait until the evicted pod's replacement is ready, while the containers go on. */
  readonly awaitReplacement: NoArguments;
  /** The agent has not answered for a while, or answers again: the pod is not ready meanwhile. */
  readonly noteReach: { readonly isOutOfReach: boolean };
  readonly drain: { readonly graceSeconds: number };
  /** The pod's last cell is gone, and the pod has ended with it. */
  readonly endPod: NoArguments;
  /** Write how the pod ended into its Cell. */
  readonly recordEnd: NoArguments;
  readonly saveLogs: NoArguments;
  readonly terminate: NoArguments;
  /** Keep the Cell, whose instance is gone, until the API has the pod's end. */
  readonly awaitEndInApi: NoArguments;
  readonly deleteCell: { readonly isLost: boolean };
}

/** One action for a cell; each is safe to repeat. */
export type CellStep<K extends keyof CellStepArgs = keyof CellStepArgs> = StepOf<CellStepArgs, K>;

/** What a step sees and reports while it runs. */
export type CellContext = Pick<
  StepContext<CellState, CellChange, CellStep>,
  "state" | "change" | "signal" | "onReplanned"
>;

/** What follows an agent sees of the state, and changes. */
export interface AgentFollower extends Pick<CellContext, "state" | "change"> {
  readonly onReport: (report: PodReport) => void;
  /** The connection has ended. */
  readonly onLost: () => void;
}

/** What keeps the identity of a standby cell sees of the state, and changes. */
export interface StandbyFollower extends Pick<CellContext, "state" | "change"> {
  /** Whether a pod has the cell: it is followed by that pod's worker. */
  readonly isReleased: () => boolean;
  /** Resolves when it is released. */
  readonly released: Promise<void>;
}

/** The work that the plan of a standby cell asks for. */
export interface StandbySteps {
  readonly executors: Executors<CellStepArgs, CellState, CellChange>;
  /** Has the Cell's status written within a second. */
  noteStatus(state: CellState): void;
  /** Renews the identity of a cell until the connection ends or the cell is released. Never throws. */
  keepIdentity(client: AgentClient, follower: StandbyFollower): Promise<void>;
}

/** The work that a cell's plan asks for. */
export interface CellSteps {
  readonly executors: Executors<CellStepArgs, CellState, CellChange>;
  /** Follows an agent's reports, and renews its identity, until the connection ends. Never throws. */
  followAgent(client: AgentClient, follower: AgentFollower): Promise<void>;
  /** Takes over what the newest report of the agent says beside the pod's status. */
  noteReport(context: Pick<CellContext, "state" | "change">): void;
  /** Has the Cell's status written within a second. */
  noteStatus(state: CellState): void;
  /** Writes what is still to be written of Cells; for the end of kip, when the workers have stopped. */
  flush(): Promise<void>;
}

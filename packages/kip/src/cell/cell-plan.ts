import type { InstanceState, WantedPod } from "../state/cell-memory.ts";
import type { CellStep } from "../state/cell-step.ts";
import type { Cell } from "../state/cell.ts";

/** The state of a pod and its cell at one moment; input of {@link planCell}. */
export interface CellObservation {
  readonly wanted: WantedPod;
  /** Whether the pod has ended (Succeeded or Failed). */
  readonly isPodFinished: boolean;
  /** Whether the pod's end is in the Cell's status; true if it has not ended. */
  readonly isEndRecorded: boolean;
  /** Whether the API has the pod's end, or no longer has the pod; true if kip does not report the end. */
  readonly isEndInApi: boolean;
  /** Whether the loss of its cell is the end of the pod. */
  readonly isLossFinal: boolean;
  readonly cell: Cell | undefined;
  /** Whether the Cell's deletion was requested. */
  readonly isCellDeleted: boolean;
  readonly instance: InstanceState;
  readonly isAgentConnected: boolean;
  /** Whether the agent has the newest desired pod. */
  readonly isDispatched: boolean;
  /** Grace period in seconds last sent to the agent; undefined if it was not asked to stop. */
  readonly drainSent: number | undefined;
  /** Seconds that a pod has to stop if it is not removed. */
  readonly graceSeconds: number;
  /** Whether the agent reported that every container has ended. */
  readonly isDrained: boolean;
  /** Whether the containers' logs have been saved, as far as possible, or the time limit for that has passed. */
  readonly areLogsSaved: boolean;
  /** Whether the pod was handed to this cell, by this process or an earlier one. */
  readonly wasClaimed: boolean;
  /** Whether the time limit for stopping the pod has passed. */
  readonly isDrainOverdue: boolean;
  /**
   * Whether the cell has to be replaced: its agent has been out of reach for longer than the installation allows, or has
   * forgotten the pod that it ran.
   */
  readonly isUnhealthy: boolean;
}

/**
 * Decides the next step for a cell from the observation alone: a crash between two steps is just
 * another start.
 */
export function planCell(seen: CellObservation): CellStep {
  if (!seen.cell) return planWithoutCell(seen);
  if (mustRecord(seen)) return { kind: "recordEnd" };
  if (seen.instance === "unknown") return { kind: "observeInstance" };
  if (seen.instance === "gone") return planGone(seen);
  if (seen.isUnhealthy && seen.instance !== "none") return { kind: "terminate" };
  const mustEnd = seen.wanted.kind === "remove" || seen.isPodFinished || seen.isCellDeleted;
  return mustEnd ? planEnd(seen) : planStart(seen);
}

/** The end is written before its sources may disappear; a removal waits for that only within its time limit. */
function mustRecord({
  wanted,
  isEndRecorded,
  isEndInApi,
  isDrainOverdue,
}: CellObservation): boolean {
  return !isEndRecorded && !isEndInApi && !(wanted.kind === "remove" && isDrainOverdue);
}

function planWithoutCell(seen: CellObservation): CellStep {
  if (seen.wanted.kind === "remove" || seen.isPodFinished) return { kind: "done" };
  return { kind: "createCell" };
}

function planStart(seen: CellObservation): CellStep {
  if (seen.instance === "none") return { kind: "launch" };
  if (seen.instance === "pending") return { kind: "awaitRunning" };
  if (!seen.isAgentConnected) return { kind: "connect" };
  if (!seen.isDispatched) return { kind: "dispatch" };
  return { kind: "wait" };
}

function planEnd(seen: CellObservation): CellStep {
  if (seen.instance === "none") return planGone(seen);
  if (!seen.wasClaimed || seen.instance === "pending") return { kind: "terminate" };
  if (seen.isDrainOverdue) return { kind: "terminate" };
  if (seen.isDrained && seen.areLogsSaved) return { kind: "terminate" };
  if (!seen.isAgentConnected) return { kind: "connect" };
  return seen.isDrained ? { kind: "saveLogs" } : planDrain(seen);
}

function planDrain(seen: CellObservation): CellStep {
  const { wanted } = seen;
  const graceSeconds = wanted.kind === "remove" ? wanted.graceSeconds : seen.graceSeconds;
  const hasChanged = seen.drainSent === undefined || graceSeconds < seen.drainSent;
  return hasChanged ? { kind: "drain", graceSeconds } : { kind: "wait" };
}

/** The instance is gone, or never was. */
function planGone(seen: CellObservation): CellStep {
  const isLost = seen.wanted.kind === "run" && !seen.isPodFinished;
  if (isLost && seen.isLossFinal) return { kind: "endPod" };
  if (!seen.isEndInApi) return { kind: "awaitEndInApi" };
  return { kind: "deleteCell", isLost: isLost && seen.instance === "gone" };
}

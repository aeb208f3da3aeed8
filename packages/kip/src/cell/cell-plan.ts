import type { InstanceState, WantedPod } from "../state/cell-memory.ts";
import type { Cell } from "../state/cell.ts";

/** What is known about a pod and its cell at one moment; input of {@link planCell}. */
export interface CellObservation {
  readonly wanted: WantedPod;
  /** Whether the pod has come to its end (Succeeded or Failed). */
  readonly isPodFinished: boolean;
  /** Whether the end that kip knows of is in the Cell's status; true if there is none. */
  readonly isEndRecorded: boolean;
  /** Whether the API has the pod's end, or the pod is gone there; true if the end is not kip's to report. */
  readonly isEndInApi: boolean;
  /** Whether the loss of its cell is the end of the pod. */
  readonly isLossFinal: boolean;
  readonly cell: Cell | undefined;
  /** Whether someone asked the API to delete the Cell. */
  readonly isCellDeleted: boolean;
  readonly instance: InstanceState;
  readonly isAgentConnected: boolean;
  /** Whether the agent has the newest desired pod. */
  readonly isDispatched: boolean;
  /** Grace period in seconds last sent to the agent; undefined if it was not asked to stop. */
  readonly drainSent: number | undefined;
  /** Seconds that a pod has to stop if it is not removed. */
  readonly graceSeconds: number;
  /** Whether the agent said that every container has ended. */
  readonly isDrained: boolean;
  /** Whether the containers' logs are saved, as far as they could be, or the time for it is over. */
  readonly areLogsSaved: boolean;
  /** Whether the pod has been handed to this cell, now or in an earlier life of kip. */
  readonly wasClaimed: boolean;
  /** Whether the time for stopping the pod is over. */
  readonly isDrainOverdue: boolean;
  /**
   * Whether the cell is of no use: its agent has been out of reach for longer than the installation allows, or has
   * forgotten the pod that it ran.
   */
  readonly isUnhealthy: boolean;
}

/** One thing to do for a cell; each is safe to repeat. */
export type CellStep =
  | { readonly kind: "createCell" }
  | { readonly kind: "observeInstance" }
  | { readonly kind: "launch" }
  | { readonly kind: "awaitRunning" }
  | { readonly kind: "connect" }
  | { readonly kind: "dispatch" }
  | { readonly kind: "drain"; readonly graceSeconds: number }
  /** The pod's last cell is gone, and the pod has ended with it. */
  | { readonly kind: "endPod" }
  /** Write how the pod ended into its Cell. */
  | { readonly kind: "recordEnd" }
  | { readonly kind: "saveLogs" }
  | { readonly kind: "terminate" }
  /** Keep the Cell, whose instance is gone, until the API has the pod's end. */
  | { readonly kind: "awaitEndInApi" }
  | { readonly kind: "deleteCell"; readonly isLost: boolean }
  /** Nothing to do until an event comes. */
  | { readonly kind: "wait" }
  /** Nothing to do any more: pod and cell are settled. */
  | { readonly kind: "done" };

/**
 * Decides the next step for a cell, from nothing but what was observed: a crash between two steps is
 * just another start.
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

/** The end is written before anything that may take away what it is known from; a removal waits for that in its time alone. */
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
  const isNews = seen.drainSent === undefined || graceSeconds < seen.drainSent;
  return isNews ? { kind: "drain", graceSeconds } : { kind: "wait" };
}

/** The instance is gone, or never was. */
function planGone(seen: CellObservation): CellStep {
  const isLost = seen.wanted.kind === "run" && !seen.isPodFinished;
  if (isLost && seen.isLossFinal) return { kind: "endPod" };
  if (!seen.isEndInApi) return { kind: "awaitEndInApi" };
  return { kind: "deleteCell", isLost: isLost && seen.instance === "gone" };
}

import type { Plan } from "@kip/reconcile";
import type { CellState } from "../state/cell-state.ts";
import { isStandby, standbyTag } from "../state/cell.ts";
import type { CellStep, CellStepArgs } from "./cell-step.ts";
import { dispatchPauseMs } from "./dispatch-pause.ts";
import { mustEvict } from "./interruption.ts";
import { cellTimes, observeCell, type CellLimits, type CellObservation } from "./observe-cell.ts";

/**
 * The decision of {@link planCell}: the next step of the cell, nothing until something changes, or nothing more.
 * Steps that run in parallel to it are not among these; {@link planFor} adds them.
 */
export type CellDecision =
  | CellStep<
      Exclude<
        keyof CellStepArgs,
        "expire" | "evict" | "awaitReplacement" | "noteReach" | "tagInstance"
      >
    >
  /** Wait for an event. */
  | { readonly kind: "wait" }
  /** Pod and cell are settled. */
  | { readonly kind: "done" };

/** Makes the plan for a cell from its state and the time, within these limits. */
export function cellPlan(limits: CellLimits): (state: CellState, nowMs: number) => Plan<CellStep> {
  return (state, nowMs) => {
    const times = cellTimes(state, limits, nowMs);
    if (times.deadlineIn <= 0) return { steps: [{ kind: "expire" }] };
    return planFor(state, observeCell(state, limits, nowMs), { times, nowMs });
  };
}

/** Makes the plan for a standby cell, which has no pod: it is started, connected to, and ended, but never started again. */
export function standbyPlan(
  limits: CellLimits,
): (state: CellState, nowMs: number) => Plan<CellStep> {
  return (state, nowMs) => {
    if (!state.cell.object) return { steps: [] };
    const { bootMs, unreachableLimitMs } = limits;
    const hasAnswered = state.cell.status.phase === "Ready";
    const own = { ...limits, bootMs: hasAnswered ? unreachableLimitMs : bootMs };
    const seen = { ...observeCell(state, own, nowMs), isDispatched: true, isLossFinal: false };
    return planFor(state, seen, { times: cellTimes(state, own, nowMs), nowMs });
  };
}

/** The next step with those that run in parallel, and when to plan again. */
function planFor(
  state: CellState,
  seen: CellObservation,
  { times, nowMs }: { readonly times: ReturnType<typeof cellTimes>; readonly nowMs: number },
): Plan<CellStep> {
  const next = planCell(seen);
  if (next.kind === "done") return { steps: [] };
  const pausedMs = pauseBefore(next, state, nowMs);
  const limitsMs = Object.values(times).filter((ms) => ms > 0);
  const wakeInMs = Math.min(...limitsMs, pausedMs > 0 ? pausedMs : Infinity);
  return {
    steps: [
      ...(next.kind === "wait" || pausedMs > 0 ? [] : [next]),
      ...planReplacement(state, seen),
      ...planReach(state, times),
      ...planTags(state),
    ],
    wakeAtMs: nowMs + wakeInMs,
    isWaiting: true,
  };
}

/**
 * The steps for a pod whose instance the cloud takes back, and whose owner makes a replacement; they run in parallel
 * to the others.
 */
function planReplacement(state: CellState, { isStopHeld }: CellObservation): readonly CellStep[] {
  if (isStopHeld) return [{ kind: "awaitReplacement" }];
  return mustEvict(state) ? [{ kind: "evict" }] : [];
}

/**
 * The step that marks the pod as not ready because its agent does not answer, or undoes that; it runs in parallel to
 * the others.
 */
function planReach(
  { agent }: CellState,
  { reachIn }: ReturnType<typeof cellTimes>,
): readonly CellStep[] {
  return reachIn <= 0 ? [{ kind: "noteReach", isOutOfReach: !agent.isOutOfReach }] : [];
}

/**
 * The step that tags the instance of a former standby cell with the labels of its pod; it runs in parallel to the
 * others.
 */
function planTags({ cell, machine, pod, end }: CellState): readonly CellStep[] {
  const { object } = cell;
  const isNeeded = pod.wanted.kind === "run" && !end.isPodFinished && machine.state === "running";
  if (!object || isStandby(object) || !isNeeded) return [];
  const isMarked = machine.instance?.tags[standbyTag] !== undefined;
  return isMarked ? [{ kind: "tagInstance" }] : [];
}

/** The pause before a step, milliseconds: after a lost cell, a connection that soon ended, or many documents. */
function pauseBefore({ kind }: CellDecision, { history, agent }: CellState, nowMs: number): number {
  if (kind === "createCell") return (history.createAt ?? nowMs) - nowMs;
  if (kind === "dispatch") return dispatchPauseMs(agent, nowMs);
  return kind === "connect" ? (agent.dialAt ?? nowMs) - nowMs : 0;
}

/**
 * Decides the next step for a cell from the observation alone: a crash between two steps is just
 * another start.
 */
export function planCell(seen: CellObservation): CellDecision {
  if (!seen.cell) return planWithoutCell(seen);
  if (mustRecord(seen)) return { kind: "recordEnd" };
  if (seen.instance === "unknown") return { kind: "observeInstance" };
  if (seen.instance === "gone") return planGone(seen);
  // The step is repeated because it waits for the end of the instance: its containers may run until then.
  if (seen.instance === "stopping") return { kind: "terminate" };
  if (seen.isUnhealthy && seen.instance !== "none") return { kind: "terminate" };
  const mustEnd = seen.wanted.kind === "remove" || seen.isPodFinished || seen.isCellDeleted;
  return mustEnd ? planEnd(seen) : planStart(seen);
}

/**
 * Whether the pod's end has to be written now, before the agent and its report may be gone. A removal waits for that
 * only within its time limit.
 */
function mustRecord({
  wanted,
  isEndRecorded,
  isEndInApi,
  isDrainOverdue,
}: CellObservation): boolean {
  return !isEndRecorded && !isEndInApi && !(wanted.kind === "remove" && isDrainOverdue);
}

function planWithoutCell(seen: CellObservation): CellDecision {
  if (seen.wanted.kind === "remove" || seen.isPodFinished) return { kind: "done" };
  return { kind: seen.hasContent ? "createCell" : "wait" };
}

function planStart(seen: CellObservation): CellDecision {
  if (seen.instance === "none")
    return seen.isRefused ? { kind: "deleteCell", isLost: false } : { kind: "launch" };
  if (seen.instance === "pending") return { kind: "awaitRunning" };
  if (!seen.isAgentConnected) return { kind: "connect" };
  if (!seen.isDispatched) return { kind: seen.hasContent ? "dispatch" : "wait" };
  if (seen.areProfilesDue) return { kind: "lookForProfiles" };
  return { kind: "wait" };
}

function planEnd(seen: CellObservation): CellDecision {
  if (seen.instance === "none") return planGone(seen);
  if (!seen.wasClaimed || seen.instance === "pending") return { kind: "terminate" };
  if (seen.isDrainOverdue) return { kind: "terminate" };
  if (seen.isDrained && seen.areLogsSaved) return { kind: "terminate" };
  if (!seen.isAgentConnected) return { kind: "connect" };
  if (seen.isDrained) return { kind: "saveLogs" };
  return seen.isStopHeld ? { kind: "wait" } : planDrain(seen);
}

function planDrain(seen: CellObservation): CellDecision {
  const { graceSeconds } = seen;
  const hasChanged = seen.drainSent === undefined || graceSeconds < seen.drainSent;
  return hasChanged ? { kind: "drain", graceSeconds } : { kind: "wait" };
}

/** The instance is gone, or never was. */
function planGone(seen: CellObservation): CellDecision {
  const isLost = seen.wanted.kind === "run" && !seen.isPodFinished;
  if (isLost && seen.isLossFinal) return { kind: "endPod" };
  if (!seen.isEndInApi) return { kind: "awaitEndInApi" };
  return { kind: "deleteCell", isLost: isLost && seen.instance === "gone" };
}

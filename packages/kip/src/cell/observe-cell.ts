import type { PodReport } from "@kip/agent-api";
import type { Clock } from "@kip/base";
import { lossEnd } from "../status/lost-cell.ts";
import type { CellMemory } from "../state/cell-memory.ts";
import type { CellObservation } from "./cell-plan.ts";
import { deadlineIn } from "../state/pod-deadline.ts";

/** Time limits of a cell, milliseconds. */
export interface CellLimits {
  /** From launch to the agent's first answer. @default 20 minutes, as in the original */
  readonly bootMs: number;
  /** How long an agent may be out of reach before its cell is lost. @default 90,000 */
  readonly unreachableLimitMs: number;
  /** What stopping may take beyond the pod's grace period. @default 15,000 */
  readonly drainLeewayMs: number;
}

/** A connection that ends sooner than this, milliseconds, does not count as contact. */
export const shortestUsefulConnectionMs = 10_000;
/** Limit for saving the logs of a finished pod, over all attempts, milliseconds. */
const saveLogsMs = 120_000;
/** The API's default, seconds. */
const defaultGraceSeconds = 30;

/** Makes the observation that the plan for a cell follows from. */
export function observeCell(memory: CellMemory, limits: CellLimits, clock: Clock): CellObservation {
  const { wanted, status } = memory;
  const times = cellTimes(memory, limits, clock);
  const isDrained = hasStopped(memory);
  return {
    wanted,
    isPodFinished: memory.isPodFinished,
    isEndRecorded: memory.end === undefined || memory.isEndRecorded,
    isEndInApi: memory.end === undefined || memory.isEndInApi,
    isLossFinal: isGone(memory) && lossEnd(memory, { message: "", finishedAt: "" }) !== undefined,
    cell: memory.cell,
    // An instance that was being ended before a restart of kip is ended.
    isCellDeleted: memory.isCellDeleted || status.phase === "Terminating",
    instance: memory.instanceState,
    isAgentConnected: memory.agent !== undefined,
    isDispatched: memory.isDispatched && times.renewalIn > 0,
    drainSent: memory.drainSent,
    graceSeconds: memory.pod?.spec?.terminationGracePeriodSeconds ?? defaultGraceSeconds,
    isDrained,
    areLogsSaved: memory.areLogsSaved || times.logsOverdueIn <= 0,
    wasClaimed: ["Claimed", "Draining"].includes(status.phase),
    // Saving the logs of a pod that has stopped has a time limit of its own.
    isDrainOverdue: times.overdueIn <= 0 && (wanted.kind === "remove" || !isDrained),
    isUnhealthy: times.unhealthyIn <= 0 || memory.isPodLost,
  };
}

/** Milliseconds until each time limit changes the plan; 0 or less if it has passed, infinite if it does not apply. */
export function cellTimes(memory: CellMemory, limits: CellLimits, clock: Clock) {
  const now = clock.monotonic();
  const { renewAt, saveLogsSince } = memory;
  return {
    /** The agent needs fresh credentials. */
    renewalIn: renewAt === undefined ? Number.POSITIVE_INFINITY : renewAt - now,
    /** The time limit for saving the logs. */
    logsOverdueIn:
      saveLogsSince === undefined || memory.areLogsSaved
        ? Number.POSITIVE_INFINITY
        : saveLogsSince + saveLogsMs - now,
    overdueIn: overdueIn(memory, limits, now),
    unhealthyIn: unhealthyIn(memory, limits, now),
    deadlineIn: deadlineIn(memory, clock.now()),
  };
}

/** Until the time limit for stopping. */
function overdueIn(memory: CellMemory, { drainLeewayMs }: CellLimits, now: number): number {
  const { wanted, removeSince, drainSent, drainSentAt } = memory;
  const isRemoved = wanted.kind === "remove";
  const since = isRemoved ? removeSince : drainSentAt;
  if (since === undefined) return Number.POSITIVE_INFINITY;
  const graceSeconds = isRemoved ? wanted.graceSeconds : (drainSent ?? 0);
  return since + graceSeconds * 1000 + drainLeewayMs - now;
}

/** Until the agent's cell is lost. */
function unhealthyIn(
  memory: CellMemory,
  { bootMs, unreachableLimitMs }: CellLimits,
  now: number,
): number {
  const { unreachableSince, status, agent, connectedAt } = memory;
  if (unreachableSince === undefined) return Number.POSITIVE_INFINITY;
  const limit = ["Claimed", "Draining"].includes(status.phase) ? unreachableLimitMs : bootMs;
  if (agent && now - (connectedAt ?? now) >= shortestUsefulConnectionMs)
    return Number.POSITIVE_INFINITY;
  // A new connection has time to prove stable.
  return (
    Math.max(
      unreachableSince + limit,
      agent ? (connectedAt ?? now) + shortestUsefulConnectionMs : 0,
    ) - now
  );
}

function isGone({ instanceState }: CellMemory): boolean {
  return instanceState === "gone" || instanceState === "none";
}

/** Whether no container of the pod runs on its cell, because it ended or because the agent was asked to stop it. */
function hasStopped({ report, drainSent, isAgentEmpty, isPodFinished }: CellMemory): boolean {
  if (drainSent !== undefined && isAgentEmpty) return true;
  if (!report) return false;
  if (isPodFinished && hasEnded(report)) return true;
  const all = [...report.initContainers, ...report.containers, ...report.ephemeralContainers];
  return drainSent !== undefined && all.every((container) => !container.running);
}

/** Whether a report shows that the pod has ended. */
export function hasEnded({ phase }: PodReport): boolean {
  return phase === "Succeeded" || phase === "Failed";
}

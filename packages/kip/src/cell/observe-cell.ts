import type { PodReport } from "@kip/agent-api";
import type { Clock } from "@kip/base";
import { latestLists } from "../status/container-lists.ts";
import { afterLoss, endByLoss } from "../status/lost-containers.ts";
import { wasClaimed, type CellMemory } from "../state/cell-memory.ts";
import type { CellObservation } from "./cell-plan.ts";
import type { PodEnd } from "../state/cell.ts";
import { deadlineIn } from "./pod-deadline.ts";

/** Time limits of a cell, milliseconds. */
export interface CellLimits {
  /** From launch to the agent's first answer. @default 20 minutes, as in the original */
  readonly bootMs: number;
  /** How long an agent may be out of reach before its cell counts as lost. @default 90,000 */
  readonly healthyMs: number;
  /** What stopping may take beyond the pod's grace period. @default 15,000 */
  readonly drainLeewayMs: number;
}

/** A connection that ends sooner than this, milliseconds, was of no use. */
export const usefulConnectionMs = 10_000;
/** Limit for saving the logs of a finished pod, over all attempts, milliseconds. */
const saveLogsMs = 120_000;
/** The API's default, seconds. */
const defaultGraceSeconds = 30;

/** What the plan for a cell is made from. */
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
    // What is being ended stays so, whatever was wanted before a restart of kip.
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

/** How the loss of its cell ends the pod; undefined if the pod gets another cell. */
export function lossEnd(
  memory: CellMemory,
  words: { readonly message: string; readonly finishedAt: string },
): PodEnd | undefined {
  const { pod, status } = memory;
  if (!pod || !wasClaimed(status)) return undefined;
  return endByLoss(pod, latestLists(memory, pod), words);
}

/** The pod's containers after the loss of its cell, by what was published of them last. */
export function listsAfterLoss(memory: CellMemory): ReturnType<typeof afterLoss> | undefined {
  const { pod } = memory;
  return pod && afterLoss(pod, latestLists(memory, pod), memory);
}

/** Milliseconds until time alone changes the plan, or has changed it; infinite for what is not awaited. */
export function cellTimes(memory: CellMemory, limits: CellLimits, clock: Clock) {
  const now = clock.monotonic();
  const { renewAt, saveLogsSince } = memory;
  return {
    /** The agent needs fresh credentials. */
    renewalIn: renewAt === undefined ? Number.POSITIVE_INFINITY : renewAt - now,
    /** Saving the logs has taken too long. */
    logsOverdueIn:
      saveLogsSince === undefined || memory.areLogsSaved
        ? Number.POSITIVE_INFINITY
        : saveLogsSince + saveLogsMs - now,
    overdueIn: overdueIn(memory, limits, now),
    unhealthyIn: unhealthyIn(memory, limits, now),
    deadlineIn: deadlineIn(memory, clock.now()),
  };
}

/** Until stopping has taken too long. */
function overdueIn(memory: CellMemory, { drainLeewayMs }: CellLimits, now: number): number {
  const { wanted, removeSince, drainSent, drainSentAt } = memory;
  const isRemoved = wanted.kind === "remove";
  const since = isRemoved ? removeSince : drainSentAt;
  if (since === undefined) return Number.POSITIVE_INFINITY;
  const graceSeconds = isRemoved ? wanted.graceSeconds : (drainSent ?? 0);
  return since + graceSeconds * 1000 + drainLeewayMs - now;
}

/** Until the agent has been out of reach for too long. */
function unhealthyIn(memory: CellMemory, { bootMs, healthyMs }: CellLimits, now: number): number {
  const { unreachableSince, status, agent, connectedAt } = memory;
  if (unreachableSince === undefined) return Number.POSITIVE_INFINITY;
  const limit = ["Claimed", "Draining"].includes(status.phase) ? healthyMs : bootMs;
  if (agent && now - (connectedAt ?? now) >= usefulConnectionMs) return Number.POSITIVE_INFINITY;
  // A connection is given the time to prove useful.
  return (
    Math.max(unreachableSince + limit, agent ? (connectedAt ?? now) + usefulConnectionMs : 0) - now
  );
}

function isGone({ instanceState }: CellMemory): boolean {
  return instanceState === "gone" || instanceState === "none";
}

/** Whether nothing of the pod runs on its cell, by its end or because the agent was asked to stop it. */
function hasStopped({ report, drainSent, isAgentEmpty, isPodFinished }: CellMemory): boolean {
  if (drainSent !== undefined && isAgentEmpty) return true;
  if (!report) return false;
  if (isPodFinished && hasEnded(report)) return true;
  const all = [...report.initContainers, ...report.containers, ...report.ephemeralContainers];
  return drainSent !== undefined && all.every((container) => !container.running);
}

/** Whether a report is of a pod that has come to its end. */
export function hasEnded({ phase }: PodReport): boolean {
  return phase === "Succeeded" || phase === "Failed";
}

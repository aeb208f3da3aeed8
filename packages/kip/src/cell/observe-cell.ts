import { hasAnswered, hasEnded, isInUse, wasClaimed, type CellState } from "../state/cell-state.ts";
import { unreachableLimitOf } from "../annotations/read-annotations.ts";
import type { InstanceState, WantedPod } from "../state/cell-state.ts";
import { lossEnd } from "../status/lost-cell.ts";
import { heldIn, interruptionStopIn, mustLeave, stopGraceSeconds } from "./interruption.ts";
import { shareOf } from "./share-of.ts";

/** The state of a pod and its cell at one moment; input of `planCell()`. */
export interface CellObservation {
  readonly wanted: WantedPod;
  /** Whether the pod has ended (Succeeded or Failed). */
  readonly isPodFinished: boolean;
  /** Whether the pod's end is in the Cell's status; true if it has not ended. */
  readonly isEndRecorded: boolean;
  /** Whether the API has the pod's end, or no longer has the pod; true if kip does not report the end. */
  readonly isEndInApi: boolean;
  /** Whether the pod ends if its cell is lost. */
  readonly isLossFinal: boolean;
  readonly cell: CellState["cell"]["object"];
  /** Whether the Cell's deletion was requested. */
  readonly isCellDeleted: boolean;
  readonly instance: InstanceState;
  /** Whether the cloud has no capacity for the instance. */
  readonly isRefused: boolean;
  readonly isAgentConnected: boolean;
  /** Whether there is a desired pod to send, with all that the pod refers to. */
  readonly hasContent: boolean;
  /** Whether the agent has the newest desired pod. */
  readonly isDispatched: boolean;
  /** Whether to look again for seccomp profiles that a container may wait for. */
  readonly areProfilesDue: boolean;
  /** Grace period in seconds last sent to the agent; undefined if it was not asked to stop. */
  readonly drainSent: number | undefined;
  /** Seconds that the containers have to stop. */
  readonly graceSeconds: number;
  /** Whether the containers of a pod that is removed go on until its replacement is ready. */
  readonly isStopHeld: boolean;
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

/** Time limits of a cell, milliseconds. */
export interface CellLimits {
  /** From launch to the agent's first answer. @default 20 minutes, as in the original */
  readonly bootMs: number;
  /** How long an agent may be out of reach before its cell is lost. @default 90,000 */
  readonly unreachableLimitMs: number;
  /**
   * Whether a cell that the cloud says is running counts as well although its agent is out of reach.
   *
   * @default false
   */
  readonly isCloudAsked?: boolean | undefined;
  /** What stopping may take beyond the pod's grace period. @default 15,000 */
  readonly drainLeewayMs: number;
}

/** A connection that ends sooner than this, milliseconds, does not count as contact. */
export const shortestUsefulConnectionMs = 10_000;
/**
 * How long an agent may be out of reach before its pod counts as not ready, milliseconds. Up to half of it is added,
 * depending on the pod's UID, so that kip does not write all pods at once when it loses its own network. A connection
 * counts as broken 10 to 15 seconds after the last answer, so a pod is not ready after 30 to 45 seconds; Kubernetes'
 * `node-monitor-grace-period` is 50 (40 before Kubernetes 1.32).
 */
const outOfReachMs = 20_000;
/**
 * The same while this process of kip has not reached the agent yet, milliseconds; up to a quarter more, depending on
 * the pod's UID. After a start kip connects to thousands of cells, so a late connection may be kip's fault. As long
 * as Kubernetes' `node-startup-grace-period`.
 */
const firstContactMs = 60_000;
/**
 * Limit for saving the logs of a finished pod, over all attempts, and for reaching the agent of a cell that has to end,
 * milliseconds: the machine is to be ended within a minute.
 */
const lastContactMs = 45_000;

/**
 * A machine whose agent has not answered for this long, milliseconds, may have ended without a report of that. Most machines
 * boot sooner.
 */
const doubtfulMs = 60_000;

/** Makes the observation that the plan for a cell follows from. */
export function observeCell(state: CellState, limits: CellLimits, nowMs: number): CellObservation {
  const { pod, cell, machine, agent, end } = state;
  const { phase } = cell.status;
  const times = cellTimes(state, limits, nowMs);
  const isDrained = hasStopped(state);
  const isGone = machine.state === "gone" || machine.state === "none";
  return {
    wanted: pod.wanted,
    isPodFinished: end.isPodFinished,
    isEndRecorded: end.podEnd === undefined || end.isRecorded,
    isEndInApi: end.podEnd === undefined || end.isInApi,
    isLossFinal: isGone && lossEnd(state, { message: "", finishedAt: "" }) !== undefined,
    cell: cell.object,
    // An instance that was being ended, or a pod that was being stopped, before a restart of kip is ended.
    isCellDeleted:
      cell.isDeleted || phase === "Terminating" || phase === "Draining" || mustLeave(state, nowMs),
    instance: machine.state,
    isRefused: machine.isRefused === true,
    isAgentConnected: agent.client !== undefined,
    hasContent: pod.resolved !== undefined,
    isDispatched: agent.isDispatched && times.renewalIn > 0,
    areProfilesDue: times.profilesIn <= 0,
    drainSent: agent.drain?.graceSeconds,
    graceSeconds: stopGraceSeconds(state),
    isStopHeld: times.heldIn > 0,
    isDrained,
    areLogsSaved: agent.areLogsSaved || times.logsOverdueIn <= 0,
    wasClaimed: isInUse(phase),
    // Saving the logs of a pod that has stopped has a time limit of its own.
    isDrainOverdue: times.overdueIn <= 0 && (pod.wanted.kind === "remove" || !isDrained),
    isUnhealthy: times.unhealthyIn <= 0 || agent.isPodLost,
  };
}

/** Milliseconds until each time limit changes the plan; 0 or less if it has passed, infinite if it does not apply. */
export function cellTimes(state: CellState, limits: CellLimits, nowMs: number) {
  const { renewAt, areLogsSaved, saveLogsSince = unreachableEndSince(state) } = state.agent;
  return {
    /** The agent needs fresh credentials. */
    renewalIn: renewAt === undefined ? Infinity : renewAt - nowMs,
    /** The next look for profiles of system calls that are missing. */
    profilesIn: profilesIn(state, nowMs),
    /** The time limit for saving the logs. */
    logsOverdueIn:
      saveLogsSince === undefined || areLogsSaved
        ? Infinity
        : saveLogsSince + lastContactMs - nowMs,
    overdueIn: overdueIn(state, limits, nowMs),
    unhealthyIn: unhealthyIn(state, limits, nowMs),
    /** The pod becomes not ready because its agent is out of reach, or ready again. */
    reachIn: reachIn(state, nowMs),
    deadlineIn: deadlineIn(state, nowMs),
    /** The cloud takes the instance back: the containers have to begin to stop. */
    interruptionIn: interruptionStopIn(state, nowMs),
    /** The containers of an evicted pod do not wait for its replacement any longer. */
    heldIn: heldIn(state, nowMs),
  };
}

/** A container that runs, or has ended for good, waits for no profile. */
function profilesIn({ agent: { missingProfiles, report } }: CellState, nowMs: number): number {
  if (!missingProfiles || !report) return Infinity;
  const all = [...report.initContainers, ...report.containers, ...report.ephemeralContainers];
  return all.some(({ waiting }) => waiting) ? missingProfiles.lookAt - nowMs : Infinity;
}

/** Milliseconds until the time limit for stopping the pod; these functions give what {@link cellTimes} has. */
function overdueIn(state: CellState, { drainLeewayMs }: CellLimits, now: number): number {
  const { wanted, removeSince } = state.pod;
  const isRemoved = wanted.kind === "remove";
  // The limit also holds for an agent that does not answer, or connects again and again.
  const since = isRemoved ? removeSince : state.agent.stopSince;
  if (since === undefined) return (unreachableEndSince(state) ?? Infinity) + lastContactMs - now;
  const graceSeconds = isRemoved ? wanted.graceSeconds : stopGraceSeconds(state);
  return since + graceSeconds * 1000 + drainLeewayMs - now;
}

/** Since when the cell has had to end while its agent was out of reach; undefined if that is not the case. */
function unreachableEndSince({ agent, cell }: CellState): number | undefined {
  const { client, unreachableSince } = agent;
  if (client || unreachableSince === undefined || cell.endSince === undefined) return undefined;
  return Math.max(unreachableSince, cell.endSince);
}

/** Until the cell counts as lost, because its agent is out of reach. */
function unhealthyIn(state: CellState, limits: CellLimits, now: number): number {
  const { agent, machine, cell, pod } = state;
  const { bootMs, unreachableLimitMs } = limits;
  const { unreachableSince, client, connectedAt = now } = agent;
  if (unreachableSince === undefined) return Infinity;
  if (client && now - connectedAt >= shortestUsefulConnectionMs) return Infinity;
  const own = pod.object && unreachableLimitOf(pod.object);
  const limit = isInUse(cell.status.phase) ? (own ?? unreachableLimitMs) : bootMs;
  if (isHealthAsked(state, limits)) {
    // Measured until the cloud's last answer, not until now: while the cloud does not answer, the state of the
    // instance is unknown.
    const { cloudAskedAt = -Infinity, cloudSeenAt = -Infinity } = machine;
    return cloudAskedAt - Math.max(unreachableSince, cloudSeenAt) >= limit ? 0 : Infinity;
  }
  // A new connection gets time to prove stable.
  const provenAt = client ? connectedAt + shortestUsefulConnectionMs : 0;
  return Math.max(unreachableSince + limit, provenAt) - now;
}

/** Whether a cell runs as long as the cloud says so, although its agent does not answer. */
export function isHealthAsked({ cell }: CellState, { isCloudAsked }: CellLimits): boolean {
  return isCloudAsked === true && isInUse(cell.status.phase);
}

/** Token of the instance that the cloud has to be asked about, because its agent does not answer. */
export function doubtfulInstance(
  state: CellState,
  limits: CellLimits,
  now: number,
): string | undefined {
  const { agent, cell, machine } = state;
  const { client, unreachableSince = Infinity } = agent;
  if (client || machine.state !== "running") return undefined;
  const isDue = now - unreachableSince >= (isHealthAsked(state, limits) ? 0 : doubtfulMs);
  return isDue ? cell.object?.metadata.uid : undefined;
}

/** Until the pod counts as not ready because its agent does not answer, or no longer does. */
function reachIn({ agent, cell, podRef, machine, end }: CellState, now: number): number {
  const { client, connectedAt = now, unreachableSince, isOutOfReach } = agent;
  // After a series of short connections a new one has to prove stable.
  if (isOutOfReach) return client ? connectedAt + shortestUsefulConnectionMs - now : Infinity;
  if (client || unreachableSince === undefined || !hasAnswered(cell.status)) return Infinity;
  if (machine.state !== "running" || end.isPodFinished) return Infinity;
  const share = shareOf(podRef.uid);
  const limit =
    agent.connectedAt === undefined
      ? firstContactMs * (1 + share / 4)
      : outOfReachMs * (1 + share / 2);
  return unreachableSince + limit - now;
}

/** Until a pod that waits for its cell exceeds its `activeDeadlineSeconds`. Once a cell has the pod, its agent enforces it. */
function deadlineIn({ pod, cell, agent, end }: CellState, now: number): number {
  const { wanted, activeSince, resolved } = pod;
  const seconds = resolved?.pod.spec.activeDeadlineSeconds;
  const isOurs = wanted.kind === "run" && !end.isPodFinished && !agent.report;
  if (!isOurs || wasClaimed(cell.status)) return Infinity;
  if (seconds === undefined || activeSince === undefined) return Infinity;
  return activeSince + seconds * 1000 - now;
}

/** Whether no container of the pod runs on its cell, because it ended or because the agent was asked to stop it. */
function hasStopped({ agent: { report, drain, isEmpty }, end }: CellState): boolean {
  if (drain && isEmpty) return true;
  if (!report) return false;
  if (end.isPodFinished && hasEnded(report)) return true;
  const all = [...report.initContainers, ...report.containers, ...report.ephemeralContainers];
  return drain !== undefined && all.every((container) => !container.running);
}

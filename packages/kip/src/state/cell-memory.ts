import type { AgentClient, PodReport } from "@kip/agent-api";
import type { Instance } from "@kip/cloud";
import type { Pod, PodCondition, PodStatus } from "@kip/k8s-types";
import type { ResolvedPod } from "@kip/virtual-kubelet";
import type { Cell, CellStatus, EndedContainer, PodEnd, StartPhase } from "./cell.ts";

/** The pod a cell serves. */
export interface PodRef {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** What the API wants of a pod: run it, or stop it within a grace period. */
export type WantedPod =
  { readonly kind: "run" } | { readonly kind: "remove"; readonly graceSeconds: number };

/**
 * A cell's instance. "unknown": the cloud has not been asked yet, or did not answer; "gone": there was one, and it has
 * ended.
 */
export type InstanceState = "none" | "unknown" | "pending" | "running" | "gone";

/**
 * What kip remembers about one pod and its cell. None of it is the only copy: after a restart all of it
 * is rebuilt from the API, the cloud and the agent.
 */
export interface CellMemory {
  readonly podRef: PodRef;
  wanted: WantedPod;
  resolved: ResolvedPod | undefined;
  /** The newest version of the pod that the virtual kubelet passed. */
  pod: Pod | undefined;
  cell: Cell | undefined;
  isCellDeleted: boolean;
  /** The newest status of the cell, written or about to be. */
  status: CellStatus;
  instanceState: InstanceState;
  instance: Instance | undefined;
  agent: AgentClient | undefined;
  report: PodReport | undefined;
  /** Whether the agent has `resolved`. */
  isDispatched: boolean;
  /** When the agent needs fresh credentials, monotonic milliseconds. */
  renewAt: number | undefined;
  /** The cell's machine was started again, and has forgotten the pod that it ran. */
  isPodLost: boolean;
  /** The newest generation of the pod that the agent reported. */
  agentGeneration: number | undefined;
  drainSent: number | undefined;
  /** When the agent was asked to stop the pod, monotonic milliseconds. */
  drainSentAt: number | undefined;
  /** The agent has no pod to stop: its cell was claimed, and the pod never arrived. */
  isAgentEmpty: boolean;
  areLogsSaved: boolean;
  /** When saving the logs began, monotonic milliseconds. */
  saveLogsSince: number | undefined;
  /** How the pod ended, for its status; undefined before its end, or if another client wrote it. */
  end: PodEnd | undefined;
  /** Whether `end` is in the Cell's status. */
  isEndRecorded: boolean;
  /** Whether the pod's phase in the API is terminal, or the API no longer has the pod. */
  isEndInApi: boolean;
  /** Since when the Cell is kept only for that, monotonic milliseconds. */
  endAwaitedSince: number | undefined;
  /** Whether the pod has ended by itself or cannot run again. */
  isPodFinished: boolean;
  /** When stopping began, monotonic milliseconds. */
  removeSince: number | undefined;
  /** Since when the agent has been out of reach, monotonic milliseconds. */
  unreachableSince: number | undefined;
  /** When the current connection to the agent was made, monotonic milliseconds. */
  connectedAt: number | undefined;
  /** When the pod was dispatched to this cell, and to the one before it, monotonic milliseconds. */
  dispatchedAt: number | undefined;
  lastDispatchedAt: number | undefined;
  /** UIDs of the pod's Cells that were deleted. */
  readonly goneCells: Set<string>;
  /** Sequence number of the agent's newest event that was published. */
  lastEvent: number;
  /** When the pod was first seen here, and the conditions published last: their times must not jump. */
  startTime: string | undefined;
  conditions: readonly PodCondition[] | undefined;
  /** The pod's status as published last. */
  publishedStatus: PodStatus | undefined;
  attempt: number;
  restartCounts: Readonly<Record<string, number>>;
  /** Containers that ended on earlier cells and do not run again, by name. */
  ended: Readonly<Record<string, EndedContainer>>;
  /** Names of the ephemeral containers that were sent to agents. */
  readonly sentEphemeral: Set<string>;
  /** Why the pod waits, one sentence with a remedy; shown as a condition. */
  waitReason: { readonly reason: string; readonly message: string } | undefined;
  startMs: Partial<Record<StartPhase, number>>;
  /** The cloud's notice that it takes the cell's instance back; `endsAt` is RFC 3339. */
  interruption: { readonly instanceId: string; readonly endsAt: string } | undefined;
}

/** A memory that has only the pod's reference. */
export function newCellMemory(podRef: PodRef): CellMemory {
  return {
    podRef,
    wanted: { kind: "run" },
    resolved: undefined,
    pod: undefined,
    cell: undefined,
    isCellDeleted: false,
    status: { phase: "Pending" },
    instanceState: "unknown",
    instance: undefined,
    agent: undefined,
    report: undefined,
    isDispatched: false,
    renewAt: undefined,
    isPodLost: false,
    agentGeneration: undefined,
    drainSent: undefined,
    drainSentAt: undefined,
    isAgentEmpty: false,
    areLogsSaved: false,
    saveLogsSince: undefined,
    end: undefined,
    isEndRecorded: false,
    isEndInApi: false,
    endAwaitedSince: undefined,
    isPodFinished: false,
    removeSince: undefined,
    unreachableSince: undefined,
    connectedAt: undefined,
    dispatchedAt: undefined,
    lastDispatchedAt: undefined,
    goneCells: new Set(),
    lastEvent: 0,
    startTime: undefined,
    conditions: undefined,
    publishedStatus: undefined,
    attempt: 0,
    restartCounts: {},
    ended: {},
    sentEphemeral: new Set(),
    waitReason: undefined,
    startMs: {},
    interruption: undefined,
  };
}

/** Forgets everything about the cell; the pod stays known. */
export function forgetCell(memory: CellMemory): void {
  const { podRef, wanted, resolved, pod, attempt, restartCounts, ended, sentEphemeral } = memory;
  const { isPodFinished, end, isEndRecorded, isEndInApi, removeSince } = memory;
  const { goneCells, startTime, conditions, publishedStatus, dispatchedAt } = memory;
  goneCells.add(memory.cell?.metadata.uid ?? "");
  Object.assign(memory, newCellMemory(podRef), {
    wanted,
    resolved,
    pod,
    attempt,
    restartCounts,
    ended,
    sentEphemeral,
    isPodFinished,
    end,
    isEndRecorded,
    isEndInApi,
    removeSince,
    goneCells,
    startTime,
    conditions,
    publishedStatus,
    lastDispatchedAt: dispatchedAt,
  });
}

/** Whether the pod was handed to the cell, by this process or an earlier one. */
export function wasClaimed({ phase, startMs }: CellStatus): boolean {
  // Times of the start are written with the claim; a cell that ended before it has none.
  if (phase === "Terminating") return startMs !== undefined;
  return phase === "Claimed" || phase === "Draining";
}

/** The address of a pod: its own, or its cell's with host networking; "" while there is none. */
export function podAddress({ instance }: CellMemory, hostNetwork: boolean): string {
  return (hostNetwork ? instance?.managementIp : instance?.podIp) ?? instance?.managementIp ?? "";
}

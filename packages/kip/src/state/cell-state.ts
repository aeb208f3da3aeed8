import type { AgentClient, DesiredPod, DesiredSeccompProfile, ReportedPod } from "@kip/agent-api";
import type { Instance } from "@kip/cloud";
import type { Pod, PodStatus } from "@kip/k8s-types";
import type { ResolvedPod } from "@kip/virtual-kubelet";
import type { Cell, CellStatus, EndedContainer, PodEnd, StandbyCell, StartPhase } from "./cell.ts";

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
 * A cell's instance. "unknown": the cloud has not been asked yet, or did not answer; "stopping": its end was asked for, and what
 * runs on it may still run; "gone": there was one, and it has ended.
 */
export type InstanceState = "none" | "unknown" | "pending" | "running" | "stopping" | "gone";

/** The pod, as the virtual kubelet passed it. Points in time are monotonic milliseconds, here and below. */
export interface PodPart {
  readonly wanted: WantedPod;
  readonly resolved?: ResolvedPod | undefined;
  /** Its newest version. */
  readonly object?: Pod | undefined;
  /** When stopping began. */
  readonly removeSince?: number | undefined;
  /** Since when the pod has been active, on all its cells; undefined before its start was reported. */
  readonly activeSince?: number | undefined;
}

/** The Cell object of the present cell. */
export interface CellPart {
  readonly object?: Cell | StandbyCell | undefined;
  readonly isDeleted: boolean;
  /** Its newest status, written or about to be. */
  readonly status: CellStatus;
  /** Times of the start so far, milliseconds. */
  readonly startMs: Partial<Readonly<Record<StartPhase, number>>>;
  /** When the pod was dispatched to it first. */
  readonly dispatchedAt?: number | undefined;
  /** Since when it is kept only until the API has the pod's end. */
  readonly endAwaitedSince?: number | undefined;
}

/** The instance of the present cell. */
export interface MachinePart {
  readonly state: InstanceState;
  readonly instance?: Instance | undefined;
  /** The cloud has no capacity for it: the pod gets another Cell, unless the cloud has started it all the same. */
  readonly isRefused?: boolean | undefined;
  readonly interruption?: Interruption | undefined;
  /** When the cloud was asked last whether it runs, and when it last said so; while the agent is out of reach. */
  readonly cloudAskedAt?: number | undefined;
  readonly cloudSeenAt?: number | undefined;
}

/** The cloud's notice that it takes the instance back. */
export interface Interruption {
  readonly instanceId: string;
  /** RFC 3339. */
  readonly endsAt: string;
  /** The same in monotonic milliseconds, as of when the notice was seen: the wall clock may be set afterwards. */
  readonly endsAtMs: number;
  /** What was left when the notice was seen, milliseconds. */
  readonly noticeMs: number;
  /** The API has taken the eviction of the pod. */
  readonly isEvicted?: boolean | undefined;
  /** The pod's owner has as many ready pods as it wants, without this one. */
  readonly isReplaced?: boolean | undefined;
}

/** The agent of the present cell: the connection to it, and what it was sent and has reported. */
export interface AgentPart {
  readonly client?: AgentClient | undefined;
  /** When the connection was made. */
  readonly connectedAt?: number | undefined;
  /** Since when the agent has been out of reach. */
  readonly unreachableSince?: number | undefined;
  /** Whether that is so long ago that the pod counts as not ready. */
  readonly isOutOfReach: boolean;
  /** Connections in a row that soon ended, and the earliest time of the next one. */
  readonly shortConnections: number;
  readonly dialAt?: number | undefined;
  /** The newest report; its events have been passed on. */
  readonly report?: ReportedPod | undefined;
  /** The newest generation of the pod that it has, or was sent. */
  readonly generation?: number | undefined;
  /** What its machine has for the pod, as was sent to it. */
  readonly machine?: DesiredPod["machine"];
  /** Whether it has the newest version of the pod. */
  readonly isDispatched: boolean;
  /** The generation of the newest version of the pod, if it was sent. */
  readonly sentGeneration?: number | undefined;
  /** Until when the documents that were made for it are paid for, see `dispatchPauseMs()`. */
  readonly documentsPaidAt?: number | undefined;
  /** When a version may go that ends the pod sooner than the one that was sent, see `dispatchPauseMs()`. */
  readonly endsSoonerAt?: number | undefined;
  /** When it needs fresh credentials. */
  readonly renewAt?: number | undefined;
  /** The profiles of system calls that it was sent as missing or wrong, and when to look for them again. */
  readonly missingProfiles?:
    { readonly profiles: readonly DesiredSeccompProfile[]; readonly lookAt: number } | undefined;
  /** Its machine was started again, and has forgotten the pod that it ran. */
  readonly isPodLost: boolean;
  /** Since when it is asked to stop the pod, over all connections. */
  readonly stopSince?: number | undefined;
  /** The request to stop the pod that was sent last over this connection. */
  readonly drain?: { readonly graceSeconds: number } | undefined;
  /** It has no pod to stop: its cell was claimed, and the pod never arrived. */
  readonly isEmpty: boolean;
  /** When saving the logs began. */
  readonly saveLogsSince?: number | undefined;
  readonly areLogsSaved: boolean;
}

/** The cells that the pod had before the present one. */
export interface CellHistory {
  /** 0 for the first cell. */
  readonly attempt: number;
  /** UIDs of the Cells that were deleted. */
  readonly goneCells: ReadonlySet<string>;
  /** Cells lost in a row, and the earliest time of the next one. */
  readonly losses: number;
  readonly createAt?: number | undefined;
}

/** Facts about the pod's containers that it takes from one cell to the next. */
export interface ContainerHistory {
  readonly restartCounts: Readonly<Record<string, number>>;
  /** Containers that ended on earlier cells and do not run again, by name. */
  readonly ended: Readonly<Record<string, EndedContainer>>;
  /** Names of the ephemeral containers that were sent to agents. */
  readonly sentEphemeral: ReadonlySet<string>;
}

/** The end of the pod, and where it has been written. */
export interface EndPart {
  /** Whether the pod has ended by itself or cannot run again. */
  readonly isPodFinished: boolean;
  /** How it ended, for its status; undefined before its end, or if another client wrote it. */
  readonly podEnd?: PodEnd | undefined;
  /** Whether `podEnd` is in the Cell's status. */
  readonly isRecorded: boolean;
  /** Whether the pod's phase in the API is terminal, or the API no longer has the pod. */
  readonly isInApi: boolean;
}

/** Why the pod waits. */
export interface WaitPart {
  /** The newest reason, one sentence with a remedy; shown as a condition. */
  readonly reason?: { readonly reason: string; readonly message: string } | undefined;
  /** That of the newest event without its figures; undefined after progress. */
  readonly reported?: string | undefined;
}

/**
 * All that kip knows of one pod and its cell; `reduceCell()` is its only writer. None of it is the only copy: after a
 * restart it is rebuilt from the API, the cloud and the agent.
 */
export interface CellState {
  readonly podRef: PodRef;
  /** Address of the virtual node. */
  readonly nodeIp: string;
  readonly pod: PodPart;
  readonly cell: CellPart;
  readonly machine: MachinePart;
  readonly agent: AgentPart;
  readonly history: CellHistory;
  readonly containers: ContainerHistory;
  readonly end: EndPart;
  readonly wait: WaitPart;
  /** The status to publish; undefined while it is unknown. */
  readonly status?: PodStatus | undefined;
}

/** The state at the start of kip, or when the pod was bound. */
export function newCellState(podRef: PodRef, nodeIp: string): CellState {
  return {
    podRef,
    nodeIp,
    pod: { wanted: { kind: "run" } },
    ...withoutCell,
    history: { attempt: 0, goneCells: new Set(), losses: 0 },
    containers: { restartCounts: {}, ended: {}, sentEphemeral: new Set() },
    end: { isPodFinished: false, isRecorded: false, isInApi: false },
  };
}

/** The parts about the present cell while there is none. */
export const withoutCell: Pick<CellState, "cell" | "machine" | "agent" | "wait"> = {
  cell: { isDeleted: false, status: { phase: "Pending" }, startMs: {} },
  machine: { state: "unknown" },
  agent: {
    isOutOfReach: false,
    shortConnections: 0,
    isDispatched: false,
    isPodLost: false,
    isEmpty: false,
    areLogsSaved: false,
  },
  wait: {},
};

/** Whether the pod was handed to the cell, by this process or an earlier one. */
export function wasClaimed({ phase, startMs }: CellStatus): boolean {
  // Times of the start are written with the claim; a cell that ended before it has none.
  if (phase === "Terminating") return startMs !== undefined;
  return isInUse(phase);
}

/** Whether the agent of a cell has answered, and the cell is not being ended. */
export function hasAnswered({ phase }: CellStatus): boolean {
  return phase === "Ready" || isInUse(phase);
}

/** Whether a cell in this phase has the pod. */
export function isInUse(phase: CellStatus["phase"]): boolean {
  return phase === "Claimed" || phase === "Draining";
}

/** Whether a report, or the API's status of a pod, shows that the pod has ended. */
export function hasEnded(of: { readonly phase?: string | undefined } | undefined): boolean {
  return of?.phase === "Succeeded" || of?.phase === "Failed";
}

/** The address of a pod: its own, or its cell's with host networking; "" while there is none. */
export function podAddress({ instance }: MachinePart, hostNetwork: boolean): string {
  return (hostNetwork ? instance?.managementIp : instance?.podIp) ?? instance?.managementIp ?? "";
}

/** The addresses of the pod's host, which is its cell: host ports answer there. None while there is none. */
export function hostAddresses({ machine }: Pick<CellState, "machine">): readonly string[] {
  const { managementIp, ipv6 } = machine.instance ?? {};
  return [managementIp ?? [], ipv6?.managementIp ?? []].flat();
}

/** All addresses of a pod, as {@link podAddress} gives the first one. */
export function podAddresses(machine: MachinePart, hostNetwork: boolean): readonly string[] {
  const ipv6 = machine.instance?.ipv6;
  const second = hostNetwork ? ipv6?.managementIp : ipv6?.podIp;
  return [podAddress(machine, hostNetwork), second ?? ""].filter((address) => address !== "");
}

/** For how long a pod has been active on all its cells, milliseconds; undefined before its start was reported. */
export function activeFor({ status, pod }: CellState, wallMs: number): number | undefined {
  const since = status?.startTime ?? pod.resolved?.pod.status?.startTime;
  return since === undefined ? undefined : Math.max(0, wallMs - Date.parse(since));
}

import type { AgentClient, DesiredPod, DesiredSeccompProfile, ReportedPod } from "@kip/agent-api";
import type { Instance } from "@kip/cloud";
import type { Pod, PodStatus } from "@kip/k8s-types";
import type { ResolvedPod } from "@kip/virtual-kubelet";
import type { Cell, CellStatus, EndedContainer, PodEnd, StandbyCell, StartPhase } from "./cell.ts";

/** The pod of a cell. */
export interface PodRef {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** What the API wants: run the pod, or stop it within a grace period. */
export type WantedPod =
  { readonly kind: "run" } | { readonly kind: "remove"; readonly graceSeconds: number };

/**
 * The state of a cell's instance. "unknown": the cloud has not been asked yet or did not respond. "stopping": its end was
 * requested, and what runs on it may still be running. "gone": there was one, and it has ended.
 */
export type InstanceState = "none" | "unknown" | "pending" | "running" | "stopping" | "gone";

/** The pod as passed by the virtual kubelet. Here and below, points in time are monotonic milliseconds. */
export interface PodPart {
  readonly wanted: WantedPod;
  readonly resolved?: ResolvedPod | undefined;
  /** Its newest version. */
  readonly object?: Pod | undefined;
  /** When stopping began. */
  readonly removeSince?: number | undefined;
  /** Since when the pod has been active, on all its cells. Undefined before its start was reported. */
  readonly activeSince?: number | undefined;
}

/** The Cell object of the present cell. */
export interface CellPart {
  readonly object?: Cell | StandbyCell | undefined;
  readonly isDeleted: boolean;
  /** Its newest status, which is written or will be. */
  readonly status: CellStatus;
  /** Start times so far, milliseconds. */
  readonly startMs: Partial<Readonly<Record<StartPhase, number>>>;
  /** When the pod was first dispatched to it. */
  readonly dispatchedAt?: number | undefined;
  /** Since when it has to end, other than because its pod is removed. */
  readonly endSince?: number | undefined;
  /** Since when it is only kept until the API has the pod's end. */
  readonly endAwaitedSince?: number | undefined;
}

/** The instance of the present cell. */
export interface MachinePart {
  readonly state: InstanceState;
  readonly instance?: Instance | undefined;
  /**
   * Whether the cloud has no capacity for it. The pod then gets another Cell, unless the cloud has started the instance after
   * all.
   */
  readonly isRefused?: boolean | undefined;
  /** Whether this process has asked the cloud to start it, without an answer that tells whether it did. */
  readonly isAsked?: boolean | undefined;
  readonly interruption?: Interruption | undefined;
  /**
   * While the agent is unreachable: when the cloud was last asked whether it is running, and when the cloud last confirmed
   * that.
   */
  readonly cloudAskedAt?: number | undefined;
  readonly cloudSeenAt?: number | undefined;
}

/** The cloud's notice that it reclaims the instance. */
export interface Interruption {
  readonly instanceId: string;
  /** RFC 3339. */
  readonly endsAt: string;
  /** The same in monotonic milliseconds, calculated when the notice was seen. The wall clock may be set later. */
  readonly endsAtMs: number;
  /** Remaining time when the notice was seen, milliseconds. */
  readonly noticeMs: number;
  /** Whether the API has accepted the pod's eviction. */
  readonly isEvicted?: boolean | undefined;
  /** Whether the pod's owner has as many ready pods as it wants, without this one. */
  readonly isReplaced?: boolean | undefined;
}

/** The agent of the present cell: the connection to it, what it was sent, and what it reported. */
export interface AgentPart {
  readonly client?: AgentClient | undefined;
  /** When the connection was made. */
  readonly connectedAt?: number | undefined;
  /** Since when the agent has been unreachable. */
  readonly unreachableSince?: number | undefined;
  /** Whether that is so long ago that the pod counts as not ready. */
  readonly isOutOfReach: boolean;
  /** Number of consecutive short connections, and the earliest time of the next one. */
  readonly shortConnections: number;
  readonly dialAt?: number | undefined;
  /** The newest report. Its events have been passed on. */
  readonly report?: ReportedPod | undefined;
  /** The newest generation of the pod that it has or was sent. */
  readonly generation?: number | undefined;
  /** Its machine's resources for the pod, as sent to it. */
  readonly machine?: DesiredPod["machine"];
  /** Whether it has the newest version of the pod. */
  readonly isDispatched: boolean;
  /** The generation of the newest version of the pod, if it was sent. */
  readonly sentGeneration?: number | undefined;
  /** Until when the documents for it are paid for, see `dispatchPauseMs()`. */
  readonly documentsPaidAt?: number | undefined;
  /** When a version that ends the pod sooner than the one before may be sent, see `dispatchPauseMs()`. */
  readonly endsSoonerAt?: number | undefined;
  /** When it needs fresh credentials. */
  readonly renewAt?: number | undefined;
  /** The seccomp profiles that were sent as missing or invalid, and when to look for them again. */
  readonly missingProfiles?:
    { readonly profiles: readonly DesiredSeccompProfile[]; readonly lookAt: number } | undefined;
  /** Whether its machine was restarted and has forgotten the pod that it ran. */
  readonly isPodLost: boolean;
  /** Since when it has been asked to stop the pod, over all connections. */
  readonly stopSince?: number | undefined;
  /** The last request to stop the pod that was sent over this connection. */
  readonly drain?: { readonly graceSeconds: number } | undefined;
  /** Whether it has no pod to stop: its cell was claimed, and the pod never arrived. */
  readonly isEmpty: boolean;
  /** When saving the logs began. */
  readonly saveLogsSince?: number | undefined;
  readonly areLogsSaved: boolean;
}

/** The earlier cells of the pod. */
export interface CellHistory {
  /** 0 for the first cell. */
  readonly attempt: number;
  /** UIDs of the Cells that were deleted. */
  readonly goneCells: ReadonlySet<string>;
  /** Number of consecutive lost cells, and the earliest time of the next one. */
  readonly losses: number;
  readonly createAt?: number | undefined;
}

/** Facts about the pod's containers that carry over from one cell to the next. */
export interface ContainerHistory {
  readonly restartCounts: Readonly<Record<string, number>>;
  /** Containers that ended on earlier cells and are not restarted, by name. */
  readonly ended: Readonly<Record<string, EndedContainer>>;
  /** Names of the ephemeral containers that were sent to agents. */
  readonly sentEphemeral: ReadonlySet<string>;
}

/** The end of the pod, and where it has been written. */
export interface EndPart {
  /** Whether the pod has ended by itself or cannot run again. */
  readonly isPodFinished: boolean;
  /** How it ended, for its status. Undefined before its end, or if another client wrote it. */
  readonly podEnd?: PodEnd | undefined;
  /** Whether `podEnd` is in the Cell's status. */
  readonly isRecorded: boolean;
  /** Whether the pod's phase in the API is terminal, or the API no longer has the pod. */
  readonly isInApi: boolean;
}

/** Why the pod is waiting. */
export interface WaitPart {
  /** The newest reason, as one sentence with a remedy. Shown as a condition. */
  readonly reason?:
    | {
        readonly reason: string;
        readonly message: string;
        /** As in {@link CellChanges.waits}. */
        readonly isTurn?: boolean | undefined;
      }
    | undefined;
  /** The reason in the newest event, without its figures. Undefined after progress. */
  readonly reported?: string | undefined;
}

/**
 * Everything that kip knows about one pod and its cell. Only `reduceCell()` changes it. None of it is the only copy: after a
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
  /** The status to publish. Undefined while it is unknown. */
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
  // The claim writes the start times, so a cell that ended before it has none.
  if (phase === "Terminating") return startMs !== undefined;
  return isInUse(phase);
}

/** Whether the agent of a cell has responded, and the cell is not being ended. */
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

/** The address of a pod: its own, or its cell's with host networking. "" while there is none. */
export function podAddress({ instance }: MachinePart, hostNetwork: boolean): string {
  return (hostNetwork ? instance?.managementIp : instance?.podIp) ?? instance?.managementIp ?? "";
}

/** The addresses of the pod's host, which is its cell. Host ports are open there. Empty while there is no cell. */
export function hostAddresses({ machine }: Pick<CellState, "machine">): readonly string[] {
  const { managementIp, ipv6 } = machine.instance ?? {};
  return [managementIp ?? [], ipv6?.managementIp ?? []].flat();
}

/** All addresses of a pod. {@link podAddress} returns the first one. */
export function podAddresses(machine: MachinePart, hostNetwork: boolean): readonly string[] {
  const ipv6 = machine.instance?.ipv6;
  const second = hostNetwork ? ipv6?.managementIp : ipv6?.podIp;
  return [podAddress(machine, hostNetwork), second ?? ""].filter((address) => address !== "");
}

/** How long a pod has been active on all its cells, milliseconds. Undefined before its start was reported. */
export function activeFor({ status, pod }: CellState, wallMs: number): number | undefined {
  const since = status?.startTime ?? pod.resolved?.pod.status?.startTime;
  return since === undefined ? undefined : Math.max(0, wallMs - Date.parse(since));
}

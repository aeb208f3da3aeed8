import type { ObjectMeta, PodStatus } from "@kip/k8s-types";
import type { LaunchType } from "@kip/cloud";

/**
 * Phases of a cell. A cell only moves forward. `Terminated` cells are deleted at once.
 *
 * | phase | meaning |
 * | --- | --- |
 * | Pending | the Cell is written, the cloud may or may not have been asked |
 * | Launching | the cloud has accepted the launch, `status.instanceID` is known |
 * | Booting | the machine runs and has its addresses |
 * | Ready | the agent responds |
 * | Claimed | the pod was handed to the agent |
 * | Draining | the pod is being stopped |
 * | Terminating | the instance is being ended |
 * | Terminated | the instance has ended and costs nothing |
 */
export const cellPhases = [
  "Pending",
  "Launching",
  "Booting",
  "Ready",
  "Claimed",
  "Draining",
  "Terminating",
  "Terminated",
] as const;
export type CellPhase = (typeof cellPhases)[number];

/** The phases of a pod's start in order, with their names in timings and metrics. */
export const startPhases = ["api", "cloud", "boot", "dial", "pull", "unpack", "start"] as const;
export type StartPhase = (typeof startPhases)[number];

/** The machine of a cell. It never changes, except that a claim may make its disk larger. */
export interface MachineSpec {
  /** Name of the virtual node that the pod is bound to. */
  readonly nodeName: string;
  /** ID of the kip installation that owns the instance. */
  readonly controllerID: string;
  readonly instanceType: string;
  readonly launchType: LaunchType;
  /** Zone of the instance. Undefined if the cloud has one zone for cells. */
  readonly zone?: string;
  readonly image: string;
  readonly rootDiskBytes: number;
  readonly privateIPOnly: boolean;
  /** Name or ARN of the instance profile, which determines the pod's permissions in the cloud. */
  readonly instanceProfile?: string;
  /** IDs of firewall groups, in addition to those of all cells. */
  readonly securityGroups?: readonly string[];
  /** CIDRs that the cloud routes to the instance. */
  readonly routes?: readonly string[];
  /** US dollars. */
  readonly pricePerHour: number;
  /** Whether it was started before there was a pod for it. */
  readonly standby?: boolean;
}

/** The pod of a cell. Does not change once it is written. */
export interface CellClaim {
  readonly podRef: { readonly namespace: string; readonly name: string; readonly uid: string };
  /** 0 for the pod's first cell, and one more for each that replaces a lost one. */
  readonly attempt: number;
  /** Root disk size that the pod needs, bytes, if the standby cell's was smaller. */
  readonly rootDiskBytes?: number;
  /** Root disk size at the launch, bytes, if the claim enlarged it. */
  readonly launchedDiskBytes?: number;
  /** Restart counts of containers on earlier cells of this pod, by container name. */
  readonly restartCounts: Readonly<Record<string, number>>;
  /** Containers that ended on earlier cells of this pod and are not restarted, by container name. */
  readonly ended?: Readonly<Record<string, EndedContainer>>;
}

/** The spec of a cell with a pod. */
export interface CellSpec extends MachineSpec, Omit<CellClaim, "rootDiskBytes"> {}

/** The spec of a standby cell, which waits for its pod. */
export interface StandbySpec extends MachineSpec {
  readonly standby: true;
}

/** The end of a container that is not restarted: one that completed, or an ephemeral one. */
export interface EndedContainer {
  readonly exitCode: number;
  readonly reason?: string;
  /** RFC 3339. */
  readonly startedAt?: string;
  /** RFC 3339. */
  readonly finishedAt?: string;
}

/** How a pod ended: the fields of its last status that only its cell reports. */
export interface PodEnd extends Pick<
  PodStatus,
  | "reason"
  | "message"
  | "initContainerStatuses"
  | "containerStatuses"
  | "ephemeralContainerStatuses"
> {
  readonly phase: "Succeeded" | "Failed";
}

/** One stage of a cell's start, in the form of Kubernetes conditions. */
export interface CellCondition {
  /**
   * `Launched`: the cloud has accepted the instance. `Running`: it runs and has its addresses. `Ready`: kip is connected to its
   * agent. `Claimed`: it has its pod.
   */
  readonly type: "Launched" | "Running" | "Ready" | "Claimed";
  readonly status: "True" | "False";
  readonly reason: string;
  readonly message: string;
  /** Since when the status has its value, RFC 3339. */
  readonly lastTransitionTime: string;
}

/** The status of a cell. Only kip writes it. */
export interface CellStatus {
  readonly phase: CellPhase;
  readonly instanceID?: string;
  /** Management address. */
  readonly ip?: string;
  readonly podIP?: string;
  /** How the machine was started, if the cloud has several ways. */
  readonly startedFrom?: "boot" | "template" | "image-template";
  /** Duration of each phase of the start, milliseconds. */
  readonly startMs?: Partial<Readonly<Record<StartPhase, number>>>;
  /** When the cell's certificate expires, RFC 3339. */
  readonly identityExpires?: string;
  /**
   * Boot ID of the machine's kernel, as last reported by the agent before the pod was sent. If it differs later, the machine
   * was rebooted.
   */
  readonly bootID?: string;
  /** Why the cell is in its phase, if the phase does not show it. */
  readonly reason?: string;
  readonly message?: string;
  readonly conditions?: readonly CellCondition[];
  /** How the pod ended. Written before the instance is ended. At most some 200 KiB of JSON. */
  readonly podEnd?: PodEnd;
}

/** Metadata of a Cell as read from an API server. */
export interface CellMeta extends ObjectMeta {
  readonly name: string;
  readonly uid: string;
}

/** Instance tag: the ID of the cluster. It distinguishes clusters that were given the same installation ID by mistake. */
export const clusterTag = "kip-cluster";

/** Instance tag: the UID of the pod. Missing on standby cells, and briefly on one that a pod has just claimed. */
export const podUidTag = "kip-pod-uid";

/** Instance tag that marks an instance without a pod. */
export const standbyTag = "kip-standby";

/** A virtual machine for one pod: `cells.kip.elotl.co/v1beta1`, cluster scoped. */
export interface Cell {
  readonly apiVersion: "kip.elotl.co/v1beta1";
  readonly kind: "Cell";
  readonly metadata: CellMeta;
  readonly spec: CellSpec;
  readonly status?: CellStatus;
}

/** A Cell that waits for a pod. A pod's claim writes the fields of {@link CellClaim}, which makes it a {@link Cell}. */
export interface StandbyCell extends Omit<Cell, "spec"> {
  readonly spec: StandbySpec;
}

/** Whether the Cell is waiting for its pod. */
export function isStandby(cell: Cell | StandbyCell): cell is StandbyCell {
  return (cell.spec as Partial<CellClaim>).podRef === undefined; // the only difference
}

/** Keeps the Cell object until its instance is gone, whichever client deletes it. */
export const cellFinalizer = "kip.elotl.co/instance";

/** Label of a Cell: its virtual node. */
export const nodeLabel = "kip.elotl.co/node";

/** Name of a pod's Cell. It is made from the pod's UID and the attempt, so that the API server refuses to create it twice. */
export function cellName(podUid: string, attempt: number): string {
  return attempt === 0 ? `cell-${podUid}` : `cell-${podUid}-${attempt}`;
}

/** Name of a standby cell. It stays the same when a pod claims the cell, because its certificate and its machine contain it. */
export function standbyName(id: string): string {
  return `cell-standby-${id}`;
}

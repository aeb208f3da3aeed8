import type { ObjectMeta, PodStatus } from "@kip/k8s-types";
import type { LaunchType } from "@kip/cloud";

/**
 * Phases of a cell. A cell only moves forward; `Terminated` cells are deleted at once.
 *
 * | phase | meaning |
 * | --- | --- |
 * | Pending | the Cell is written, the cloud may or may not have been asked |
 * | Launching | the cloud has accepted, `status.instanceID` is known |
 * | Booting | the machine runs and has its addresses |
 * | Ready | the agent answers |
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

/** The phases of a pod's start in their order, with their names in timings and metrics. */
export const startPhases = ["api", "cloud", "boot", "dial", "pull", "unpack", "start"] as const;
export type StartPhase = (typeof startPhases)[number];

/** What a cell is for; never changes. */
export interface CellSpec {
  readonly podRef: { readonly namespace: string; readonly name: string; readonly uid: string };
  /** Name of the virtual node that the pod is bound to. */
  readonly nodeName: string;
  /** ID of the kip installation that owns the instance. */
  readonly controllerID: string;
  readonly instanceType: string;
  readonly launchType: LaunchType;
  /** Where the instance is; undefined: the cloud has one zone for cells. */
  readonly zone?: string;
  readonly image: string;
  readonly rootDiskBytes: number;
  readonly privateIPOnly: boolean;
  /** US dollars. */
  readonly pricePerHour: number;
  /** 0 for the pod's first cell; one more for each that replaces a lost one. */
  readonly attempt: number;
  /** Restarts that containers had on earlier cells of this pod, by container name. */
  readonly restartCounts: Readonly<Record<string, number>>;
  /** Containers that ended on earlier cells of this pod and do not run again, by container name. */
  readonly ended?: Readonly<Record<string, EndedContainer>>;
}

/** The end of a container that does not run again: one that completed, or an ephemeral one. */
export interface EndedContainer {
  readonly exitCode: number;
  readonly reason?: string;
  /** RFC 3339. */
  readonly startedAt?: string;
  /** RFC 3339. */
  readonly finishedAt?: string;
}

/** How a pod ended: the parts of its last status that only its cell reports. */
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

/** The status of a cell; only kip writes it. */
export interface CellStatus {
  readonly phase: CellPhase;
  readonly instanceID?: string;
  /** Management address. */
  readonly ip?: string;
  readonly podIP?: string;
  /** How the machine came up, where the cloud has two ways. */
  readonly startedFrom?: "boot" | "template" | "image-template";
  /** Milliseconds each phase of the start took. */
  readonly startMs?: Partial<Readonly<Record<StartPhase, number>>>;
  /** When the cell's certificate ends, RFC 3339. */
  readonly identityExpires?: string;
  /** Why the cell is in its phase, if the phase does not say. */
  readonly reason?: string;
  readonly message?: string;
  /** How the pod ended; written before the instance is ended. At most some 200 KiB of JSON. */
  readonly podEnd?: PodEnd;
}

/** Metadata of a Cell that an API server has stored. */
export interface CellMeta extends ObjectMeta {
  readonly name: string;
  readonly uid: string;
}

/** A virtual machine for one pod: `cells.kip.elotl.co/v1beta1`, cluster scoped. */
export interface Cell {
  readonly apiVersion: "kip.elotl.co/v1beta1";
  readonly kind: "Cell";
  readonly metadata: CellMeta;
  readonly spec: CellSpec;
  readonly status?: CellStatus;
}

/** Keeps the Cell object until its instance is gone, whichever client deletes it. */
export const cellFinalizer = "kip.elotl.co/instance";

/** Label of a Cell: the virtual node it serves. */
export const nodeLabel = "kip.elotl.co/node";

/**
 * Name of the cell of a pod: follows from the pod's UID and the attempt, so that creating it twice
 * is found out by the API server.
 */
export function cellName(podUid: string, attempt: number): string {
  return attempt === 0 ? `cell-${podUid}` : `cell-${podUid}-${attempt}`;
}

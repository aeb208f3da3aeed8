import type { DesiredPod, PodEventReport } from "@kip/agent-api";
import type { PodSandbox } from "@kip/oci-runtime";
import { noAllocation, type Allocation } from "./allocation.ts";
import type { ContainerRecord } from "./container-record.ts";
import type { End } from "./pod-end.ts";
import type { StartTimings } from "./start-timings.ts";

/** Resources that the containers of a pod share. */
export interface PodResources {
  readonly sandbox: PodSandbox;
  /** Path on this machine by volume name. */
  readonly volumes: ReadonlyMap<string, string>;
  /** Files that the node provides to the pod, by their path in each container. */
  readonly podFiles: ReadonlyMap<string, string>;
  /** The pod generation of these files. */
  readonly generation: number;
}

/** Why the agent has ended the pod, in the kubelet's words. */
export interface EndReason {
  readonly reason: string;
  readonly message: string;
  /** Whether it protects the cell, instead of enforcing a limit of the pod. */
  readonly isDisruption?: boolean | undefined;
}

/** Devices by container, each in the form `kind=id`. */
export type GivenDevices = Readonly<Record<string, readonly string[]>>;

/** Everything that the agent knows about its pod. Only `reduce` creates a new one. */
export interface PodState {
  /** The desired pod. Undefined before the first one. */
  readonly desired: DesiredPod | undefined;
  /** By name, in the order in which they start. */
  readonly containers: ReadonlyMap<string, ContainerRecord>;
  /** The pod's resources on the cell. */
  readonly allocation: Allocation;
  /** Devices of its containers, which are assigned when the first one that requests devices starts. They keep them. */
  readonly devices: GivenDevices | undefined;
  /** Namespaces, network and volumes, once they exist. */
  readonly resources: PodResources | undefined;
  /** Whether the last attempt to create them has failed. */
  readonly isPrepareFailed: boolean;
  /** How many changes of the cluster's network this process of the agent has put in force. */
  readonly networkChanges: number;
  /** Whether rules of the cluster's network are in force, from this process of the agent or an earlier one. */
  readonly isNetworkInForce: boolean;
  /** Ended runs that have left something to be removed. */
  readonly leftovers: readonly string[];
  /** When the pod has to end, because it was deleted or has run too long. */
  readonly end: End | undefined;
  /** Why the pod ended, if not by itself or by its deletion. */
  readonly reason: EndReason | undefined;
  /** When the pod became active, on this cell or an earlier one, milliseconds since the Unix epoch. */
  readonly startTimeMs: number;
  readonly timings: StartTimings;
  readonly events: readonly PodEventReport[];
  /** Whether the leftovers of an earlier process of the agent are known. Nothing is planned before. */
  readonly isTakenOver: boolean;
  /** Whether the pod has ended and all of its resources are released. */
  readonly isReleased: boolean;
}

/** The state before the first pod. */
export const noPod: PodState = {
  desired: undefined,
  containers: new Map(),
  allocation: noAllocation,
  devices: undefined,
  resources: undefined,
  isPrepareFailed: false,
  networkChanges: 0,
  isNetworkInForce: false,
  leftovers: [],
  end: undefined,
  reason: undefined,
  startTimeMs: 0,
  timings: { values: {} },
  events: [],
  isTakenOver: false,
  isReleased: false,
};

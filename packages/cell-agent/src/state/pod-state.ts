import type { DesiredPod, PodEventReport } from "@kip/agent-api";
import type { PodSandbox } from "@kip/oci-runtime";
import { noAllocation, type Allocation } from "./allocation.ts";
import type { ContainerRecord } from "./container-record.ts";
import type { End } from "./pod-end.ts";
import type { StartTimings } from "./start-timings.ts";

/** What the containers of a pod share. */
export interface PodResources {
  readonly sandbox: PodSandbox;
  /** Place on this machine by volume name. */
  readonly volumes: ReadonlyMap<string, string>;
  /** Files the pod gets from the node, by their path in each container. */
  readonly podFiles: ReadonlyMap<string, string>;
  /** The generation of the pod whose files these are. */
  readonly generation: number;
}

/** Why the agent has ended the pod, in the kubelet's words. */
export interface EndReason {
  readonly reason: string;
  readonly message: string;
  /** To protect the cell, not for a limit of the pod. */
  readonly isDisruption?: boolean | undefined;
}

/** Devices by container, each as `kind=id`. */
export type GivenDevices = Readonly<Record<string, readonly string[]>>;

/** All that the agent knows of its pod. Only `reduce` makes a new one. */
export interface PodState {
  /** The pod as kip wants it; undefined before the first. */
  readonly desired: DesiredPod | undefined;
  /** By name, in the order in which they start. */
  readonly containers: ReadonlyMap<string, ContainerRecord>;
  /** What the pod has of the cell. */
  readonly allocation: Allocation;
  /** What its containers were given, once the first that asks for devices has begun: they keep it. */
  readonly devices: GivenDevices | undefined;
  /** Namespaces, network and volumes, once they are made. */
  readonly resources: PodResources | undefined;
  /** The last try to make them has failed. */
  readonly isPrepareFailed: boolean;
  /** How many changes of the cluster's network this life of the agent has put in force. */
  readonly networkChanges: number;
  /** Rules of the cluster's network are in force, from this life of the agent or an earlier one. */
  readonly isNetworkInForce: boolean;
  /** Runs that have ended, of which something is still to be removed. */
  readonly leftovers: readonly string[];
  /** Until when the pod has to end: it was deleted or has run too long. */
  readonly end: End | undefined;
  /** Why the pod ended, if not by itself and not by its deletion. */
  readonly reason: EndReason | undefined;
  /** When the pod began to be active, on this cell or one before, milliseconds since the epoch. */
  readonly startTimeMs: number;
  readonly timings: StartTimings;
  readonly events: readonly PodEventReport[];
  /** What an earlier life of the agent has left is known. Nothing is planned before. */
  readonly isTakenOver: boolean;
  /** The pod has ended, and all that it held is free. */
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

import type { Pod } from "@kip/k8s-types";
import type { TakenHostPorts } from "./host-ports.ts";

/** Why the node does not take a pod: `status.reason`, and the words of the status' message and of the event. */
export interface Rejection {
  readonly reason: string;
  readonly message: string;
}

/** What a pod is judged by, besides the pod itself. */
export interface AdmissionContext {
  /** The node's labels; those that others gave it, too, once the node is registered. */
  readonly labels: Readonly<Record<string, string>>;
  /** What the node offers to pods. */
  readonly allocatable: Readonly<Record<string, string>>;
  /** Pods of the node that were admitted and have not ended, without the one that is judged. */
  readonly otherPods: () => readonly Pod[];
  /** A number that those do not exceed: to list thousands of them for each pod takes long. @default Infinity */
  readonly mostOtherPods?: number | undefined;
  /** Remembers the host ports of pods from one admission to the next. @default nothing is remembered */
  readonly takenPorts?: TakenHostPorts | undefined;
  /** Sysctls besides the safe ones that pods may have: names, or beginnings with an asterisk. @default none */
  readonly allowedUnsafeSysctls?: readonly string[] | undefined;
}

/** One of the checks of admission. Pure; undefined means that nothing speaks against the pod. */
export type AdmissionCheck = (pod: Pod, context: AdmissionContext) => Rejection | undefined;

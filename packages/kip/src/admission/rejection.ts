import type { Pod } from "@kip/k8s-types";
import type { TakenHostPorts } from "./host-ports.ts";

/** Why the node does not admit a pod: `status.reason`, and the message of the status and the event. */
export interface Rejection {
  readonly reason: string;
  readonly message: string;
}

/** The context in which a pod is judged. */
export interface AdmissionContext {
  /** The node's labels. Once the node is registered, this includes labels set by others. */
  readonly labels: Readonly<Record<string, string>>;
  /** The node's allocatable resources. */
  readonly allocatable: Readonly<Record<string, string>>;
  /** Admitted pods of the node that have not ended, except the judged one. */
  readonly otherPods: () => readonly Pod[];
  /** An upper bound of their number, because listing thousands of pods for each admission takes long. @default Infinity */
  readonly mostOtherPods?: number | undefined;
  /** Keeps the pods' host ports between admissions. @default nothing is kept */
  readonly takenPorts?: TakenHostPorts | undefined;
  /** Additional sysctls that pods may set: names, or prefixes with an asterisk. @default none */
  readonly allowedUnsafeSysctls?: readonly string[] | undefined;
}

/** An admission check. Pure. Undefined means that it accepts the pod. */
export type AdmissionCheck = (pod: Pod, context: AdmissionContext) => Rejection | undefined;

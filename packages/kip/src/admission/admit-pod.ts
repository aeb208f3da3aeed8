import type { Pod } from "@kip/k8s-types";
import { rejectAppArmor } from "./app-armor.ts";
import { rejectHostPorts } from "./host-ports.ts";
import { rejectUnsupported } from "./fields.ts";
import { rejectNodeAffinity } from "./node-affinity.ts";
import type { AdmissionCheck, AdmissionContext, Rejection } from "./rejection.ts";
import { rejectTooLarge, rejectTooMany } from "./resources.ts";
import { rejectSysctls } from "./sysctls.ts";
import { rejectOs, rejectOsLabel } from "./system.ts";

/**
 * The kubelet's checks in its order, followed by checks for what only cells lack. The first one that fails gives the reason.
 */
const checks: readonly AdmissionCheck[] = [
  rejectSysctls,
  rejectOsLabel,
  rejectOs,
  rejectTooMany,
  rejectTooLarge,
  rejectNodeAffinity,
  rejectHostPorts,
  rejectAppArmor,
  rejectUnsupported,
];

/**
 * Whether the node admits a pod that is bound to it. Like a kubelet, decides this before anything is done for the pod, and
 * repeats the scheduler's checks, because a pod may be bound without the scheduler. Undefined means yes.
 *
 * This is part of kip and not of the virtual kubelet, because another provider's pods may be for another operating system.
 *
 * @see https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#nodename
 */
export function admitPod(pod: Pod, context: AdmissionContext): Rejection | undefined {
  for (const check of checks) {
    const rejection = check(pod, context);
    if (rejection) return rejection;
  }
  return undefined;
}

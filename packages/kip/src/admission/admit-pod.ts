import type { Pod } from "@kip/k8s-types";
import { rejectAppArmor } from "./app-armor.ts";
import { rejectHostPorts } from "./host-ports.ts";
import { rejectUnsupported } from "./fields.ts";
import { rejectNodeAffinity } from "./node-affinity.ts";
import type { AdmissionCheck, AdmissionContext, Rejection } from "./rejection.ts";
import { rejectTooLarge, rejectTooMany } from "./resources.ts";
import { rejectSysctls } from "./sysctls.ts";
import { rejectOs, rejectOsLabel } from "./system.ts";

/** In the kubelet's order, then what only cells do not have: the first that speaks against a pod gives the reason. */
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
 * Whether the node takes a pod that is bound to it, as a kubelet decides before it does anything for the pod: whatever
 * the scheduler looks at is looked at again, since a pod may be bound without it. Undefined means yes.
 *
 * This is kip's own and not the virtual kubelet's: another provider's pods may well be of another system.
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

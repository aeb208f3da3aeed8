import type { Pod } from "@kip/k8s-types";

/** The lowest priority of Kubernetes' own priority classes. */
const criticalPriority = 2_000_000_000;

/** Whether the pod's priority is so high that a kubelet would not evict it from a full disk. */
export function isCritical({ spec }: Pick<Pod, "spec">): boolean {
  return (spec.priority ?? 0) >= criticalPriority;
}

/** Whether the node needs the pod. When memory runs out, the kernel kills its containers last. */
export function isNodeCritical(pod: Pick<Pod, "spec">): boolean {
  return pod.spec.priorityClassName === "system-node-critical" && isCritical(pod);
}

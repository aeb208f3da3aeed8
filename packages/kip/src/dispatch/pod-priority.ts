import type { Pod } from "@kip/k8s-types";

/** The least priority of the classes that Kubernetes itself has. */
const criticalPriority = 2_000_000_000;

/** Whether the pod is too important to be evicted from a full disk: no kubelet evicts pods of this priority. */
export function isCritical({ spec }: Pick<Pod, "spec">): boolean {
  return (spec.priority ?? 0) >= criticalPriority;
}

/** Whether the node needs the pod: when memory runs out, the kernel ends its containers last. */
export function isNodeCritical(pod: Pick<Pod, "spec">): boolean {
  return pod.spec.priorityClassName === "system-node-critical" && isCritical(pod);
}

import type { Pod } from "@kip/k8s-types";

/** Whether a pod has ended for good. */
export function isFinished({ status }: Pick<Pod, "status">): boolean {
  return status?.phase === "Succeeded" || status?.phase === "Failed";
}

/**
 * Whether something of a finished pod may still run, by its status alone: a container is shown as
 * running, or all that there are wait. A pod that its provider reported as ended shows the end of a container.
 */
export function mayStillRun({ status }: Pod): boolean {
  const { initContainerStatuses = [], containerStatuses = [] } = status ?? {};
  const states = [...initContainerStatuses, ...containerStatuses].map(({ state }) => state);
  if (states.some((state) => state?.running)) return true;
  return states.length > 0 && !states.some((state) => state?.terminated);
}

/** How long a pod has to stop: `deletionGracePeriodSeconds` if it is being deleted, else the grace period of its spec. @default 30 */
export function gracePeriodSeconds(pod: Pod): number {
  return pod.metadata.deletionGracePeriodSeconds ?? pod.spec.terminationGracePeriodSeconds ?? 30;
}

/** Whether the pod runs, or ran, by its phase in the API. */
export function hasStarted({ status }: Pod): boolean {
  return status?.phase !== undefined && status.phase !== "Pending";
}

/** The pod's `resourceVersion` as a number: versions of one object are comparable (etcd revisions). */
export function versionOf(pod: Pod): bigint {
  return BigInt(pod.metadata.resourceVersion);
}

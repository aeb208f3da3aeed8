import type { Pod, PodStatus } from "@kip/k8s-types";

/** Whether a pod is in a terminal phase. */
export function isFinished({ status }: Pick<Pod, "status">): boolean {
  return status?.phase === "Succeeded" || status?.phase === "Failed";
}

/**
 * Whether something of a finished pod may still be running, judging only by its status: it shows a running container, or all
 * its containers are waiting. If its provider reported its end, at least one container shows an end.
 */
export function mayStillRun({ status }: Pod): boolean {
  const { initContainerStatuses = [], containerStatuses = [] } = status ?? {};
  const states = [...initContainerStatuses, ...containerStatuses].map(({ state }) => state);
  if (states.some((state) => state?.running)) return true;
  return states.length > 0 && !states.some((state) => state?.terminated);
}

/**
 * How long a pod has to stop: `deletionGracePeriodSeconds` if it is being deleted, otherwise the grace period in its spec.
 * @default 30
 */
export function gracePeriodSeconds(pod: Pod): number {
  return pod.metadata.deletionGracePeriodSeconds ?? pod.spec.terminationGracePeriodSeconds ?? 30;
}

/** Whether the pod is or was running, according to its phase in the API. */
export function hasStarted({ status }: Pod): boolean {
  return status?.phase !== undefined && status.phase !== "Pending";
}

/** Whether the API shows that one of the pod's containers has run. */
export function hasRun({ containerStatuses = [], initContainerStatuses = [] }: PodStatus): boolean {
  return [...initContainerStatuses, ...containerStatuses].some(
    ({ state, lastState }) => state?.running ?? state?.terminated ?? lastState?.terminated,
  );
}

/** Whether something of the pod is or was running. A pod whose init containers run is still pending. */
export function hasBegun(pod: Pod): boolean {
  return hasStarted(pod) || hasRun(pod.status ?? {});
}

/** The pod's `resourceVersion` as a number. Versions of one object can be compared (etcd revisions). */
export function versionOf(pod: Pod): bigint {
  return BigInt(pod.metadata.resourceVersion);
}

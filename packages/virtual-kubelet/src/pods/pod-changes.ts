import { isDeepStrictEqual } from "node:util";
import type { Pod } from "@kip/k8s-types";

/**
 * Whether a change of a pod concerns its provider: spec, labels, annotations, or the conditions that
 * its readiness gates name. A change of the status alone does not.
 *
 * @param own keys of annotations that the provider sets
 */
export function isRelevantChange(
  before: Pod,
  after: Pod,
  own: ReadonlySet<string> = new Set(),
): boolean {
  return (
    !isDeepStrictEqual(before.spec, after.spec) ||
    !isDeepStrictEqual(before.metadata.labels ?? {}, after.metadata.labels ?? {}) ||
    !isDeepStrictEqual(foreignAnnotations(before, own), foreignAnnotations(after, own)) ||
    gates(before) !== gates(after)
  );
}

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

/** How long a pod has to stop, seconds: by its deletion, else by its spec. */
export function gracePeriod(pod: Pod): number {
  return pod.metadata.deletionGracePeriodSeconds ?? pod.spec.terminationGracePeriodSeconds ?? 30;
}

/** Whether the API shows a pod that runs, or ran. */
export function hasStarted({ status }: Pod): boolean {
  return status?.phase !== undefined && status.phase !== "Pending";
}

/** Versions of one resource are comparable numbers (etcd revisions). */
export function versionOf(pod: Pod): bigint {
  return BigInt(pod.metadata.resourceVersion);
}

function foreignAnnotations({ metadata }: Pod, own: ReadonlySet<string>): object {
  const annotations = metadata.annotations ?? {};
  if (own.size === 0) return annotations;
  return Object.fromEntries(Object.entries(annotations).filter(([key]) => !own.has(key)));
}

function gates(pod: Pod): string {
  const wanted = (pod.spec.readinessGates ?? []).map(({ conditionType }) => conditionType);
  const conditions = new Map(pod.status?.conditions?.map(({ type, status }) => [type, status]));
  return wanted.map((gate) => conditions.get(gate) ?? "").join(" ");
}

import { isDeepStrictEqual } from "node:util";
import type { Pod } from "@kip/k8s-types";

/**
 * Whether a change of a pod concerns its provider: spec, labels, annotations, or the conditions that
 * its readiness gates name. A change of the status alone does not.
 */
export function isRelevantChange(before: Pod, after: Pod): boolean {
  return (
    !isDeepStrictEqual(before.spec, after.spec) ||
    !isDeepStrictEqual(before.metadata?.labels ?? {}, after.metadata?.labels ?? {}) ||
    !isDeepStrictEqual(before.metadata?.annotations ?? {}, after.metadata?.annotations ?? {}) ||
    gates(before) !== gates(after)
  );
}

/** Whether a pod has ended for good. */
export function isFinished(pod: Pod): boolean {
  return pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed";
}

function gates(pod: Pod): string {
  const wanted = (pod.spec?.readinessGates ?? []).map(({ conditionType }) => conditionType);
  const conditions = pod.status?.conditions ?? [];
  return wanted.map((gate) => conditions.find(({ type }) => type === gate)?.status ?? "").join(" ");
}

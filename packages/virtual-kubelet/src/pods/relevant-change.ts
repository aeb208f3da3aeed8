import { isDeepStrictEqual } from "node:util";
import type { Pod } from "@kip/k8s-types";

/**
 * Whether a change of a pod is relevant for its provider: a change of the spec, labels, annotations, or the conditions of its
 * readiness gates. Other changes of the status are not.
 *
 * @param own keys of annotations that the provider itself sets. Their changes are ignored
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

/** The annotations that the provider has not set itself. */
function foreignAnnotations({ metadata }: Pod, own: ReadonlySet<string>): object {
  const annotations = metadata.annotations ?? {};
  if (own.size === 0) return annotations;
  return Object.fromEntries(Object.entries(annotations).filter(([key]) => !own.has(key)));
}

/** The statuses of the pod's readiness gates, as text for comparing. */
function gates(pod: Pod): string {
  const wanted = (pod.spec.readinessGates ?? []).map(({ conditionType }) => conditionType);
  const conditions = new Map(pod.status?.conditions?.map(({ type, status }) => [type, status]));
  return wanted.map((gate) => conditions.get(gate) ?? "").join(" ");
}

import type { NodeSelectorRequirement, NodeSelectorTerm, Pod } from "@kip/k8s-types";
import type { AdmissionContext, Rejection } from "./rejection.ts";

/** Labels of every kip node, unless its configuration sets them. */
const systemLabels: Readonly<Record<string, string>> = {
  "kubernetes.io/os": "linux",
  "kubernetes.io/arch": "amd64",
  "beta.kubernetes.io/os": "linux",
  "beta.kubernetes.io/arch": "amd64",
};

/**
 * Refuses a pod that was bound although its node selector or required node affinity names another node, or another value of a
 * label that the node has.
 *
 * Unlike in a kubelet, requirements for labels that the node lacks count as met. The scheduler would not bind such a pod, and a
 * pod that names its node itself uses them to choose its machine, such as one with a kind of GPU.
 */
export function rejectNodeAffinity(
  { spec }: Pod,
  { labels }: AdmissionContext,
): Rejection | undefined {
  const known = new Map(Object.entries({ ...systemLabels, ...labels }));
  const label = (key: string): string | undefined => known.get(key);
  const selector = Object.entries(spec.nodeSelector ?? {});
  const affinity = spec.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  const fields = new Map([["metadata.name", spec.nodeName]]);
  // Terms are alternatives.
  const isMet =
    selector.every(([key, value]) => (label(key) ?? value) === value) &&
    (affinity?.nodeSelectorTerms.some((term) => isTermMet(term, { label, fields })) ?? true);
  if (isMet) return undefined;
  return {
    reason: "NodeAffinity",
    message: "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
  };
}

interface Facts {
  /** The value of a label. Undefined if the label is not known. */
  readonly label: (key: string) => string | undefined;
  readonly fields: ReadonlyMap<string, string | undefined>;
}

/** As in the API, no node meets a term without requirements. */
function isTermMet(
  { matchExpressions = [], matchFields = [] }: NodeSelectorTerm,
  { label, fields }: Facts,
): boolean {
  if (matchExpressions.length === 0 && matchFields.length === 0) return false;
  return (
    matchExpressions.every((one) => mayMatch(one, label(one.key))) &&
    matchFields.every((one) => mayMatch(one, fields.get(one.key)))
  );
}

/**
 * Whether the node's value meets a requirement, or is not known.
 *
 * @see https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#operators
 */
function mayMatch(
  { operator, values = [] }: NodeSelectorRequirement,
  value: string | undefined,
): boolean {
  if (value === undefined) return true;
  switch (operator) {
    case "In":
      return values.includes(value);
    case "NotIn":
      return !values.includes(value);
    case "DoesNotExist":
      return false;
    case "Gt":
      return isInteger(value) && isInteger(values[0]) && BigInt(value) > BigInt(values[0]);
    case "Lt":
      return isInteger(value) && isInteger(values[0]) && BigInt(value) < BigInt(values[0]);
    default:
      return true;
  }
}

/** Accepts slightly more than 64 bits. Comparing longer integers would take long. */
function isInteger(text: string | undefined): text is string {
  return text !== undefined && /^-?\d{1,19}$/.test(text);
}

import type { Pod } from "@kip/k8s-types";
import type { Rejection } from "./rejection.ts";

/** Labels of the node that only kip sets; those of operators may change, and are the scheduler's business. */
const systemLabels: Readonly<Record<string, string>> = {
  "kubernetes.io/os": "linux",
  "kubernetes.io/arch": "amd64",
  "beta.kubernetes.io/os": "linux",
  "beta.kubernetes.io/arch": "amd64",
};

/** Refuses a pod whose label says that it is for another system: the kubelet, too, looks at the label of the pod here. */
export function rejectOsLabel({ metadata }: Pod): Rejection | undefined {
  if ((metadata.labels?.["kubernetes.io/os"] ?? "linux") === "linux") return undefined;
  return {
    reason: "PodOSSelectorNodeLabelDoesNotMatch",
    message: "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
  };
}

/** Refuses a pod for another system than Linux. */
export function rejectOs({ spec }: Pod): Rejection | undefined {
  if ((spec.os?.name ?? "linux") === "linux") return undefined;
  return {
    reason: "PodOSNotSupported",
    message: "Failed to admit pod as the OS field doesn't match node OS",
  };
}

/** Refuses a pod that was bound in spite of a node selector for another system or processor. */
export function rejectNodeSelector({ spec }: Pod): Rejection | undefined {
  const selector = Object.entries(spec.nodeSelector ?? {});
  if (selector.every(([key, value]) => (systemLabels[key] ?? value) === value)) return undefined;
  return {
    reason: "NodeAffinity",
    message: "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
  };
}

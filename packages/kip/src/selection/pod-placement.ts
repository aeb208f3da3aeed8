import type { Pod } from "@kip/k8s-types";

/** The usual label for a node's architecture. A node has one value of it. */
export const architectureLabel = "kubernetes.io/arch";
const archLabels: readonly string[] = [architectureLabel, `beta.${architectureLabel}`];

/** A prefix that is followed by an architecture, so that one node can have labels for several. */
export const architectureLabelPrefix = "node.elotl.co/arch-";

/** Node selector keys whose value is a kind of GPU: those of GKE, EKS and Karpenter. */
const gpuLabels: readonly string[] = [
  "cloud.google.com/gke-accelerator",
  "k8s.amazonaws.com/accelerator",
  "karpenter.k8s.aws/instance-gpu-name",
];

/**
 * The original's key. The prefix is followed by the kind, unless the value is the kind. So one node can have labels for several
 * kinds.
 */
const gpuLabelPrefix = "node.elotl.co/gpu-";

/** Kinds of GPU in a pod's node selector. Its GPUs must match all of them. */
export function gpuKinds({ spec }: Pod): readonly string[] {
  return Object.entries(spec.nodeSelector ?? {}).flatMap(([key, value]) => {
    if (gpuLabels.includes(key)) return [value];
    if (!key.startsWith(gpuLabelPrefix)) return [];
    return [value === "" ? key.slice(gpuLabelPrefix.length) : value];
  });
}

/**
 * Allowed architectures of a pod, from its node selector and from `In` in its required node affinity. Undefined if it does not
 * restrict them. Kip's own label takes precedence over the usual one, which tells what other pods of the node get.
 */
export function architectures({ spec }: Pod): readonly string[] | undefined {
  const keys = Object.keys(spec.nodeSelector ?? {});
  const own = keys.filter((key) => key.startsWith(architectureLabelPrefix));
  if (own.length > 0) return own.map((key) => key.slice(architectureLabelPrefix.length));
  const selected = Object.entries(spec.nodeSelector ?? {}).find(([key]) =>
    archLabels.includes(key),
  );
  if (selected) return [selected[1]];
  const affinity = spec.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  const terms = affinity?.nodeSelectorTerms ?? [];
  const ofTerms = terms.map(({ matchExpressions = [] }) =>
    matchExpressions.find(({ key, operator }) => archLabels.includes(key) && operator === "In"),
  );
  // Terms are alternatives. If one of them allows any architecture, all are allowed.
  if (ofTerms.length === 0 || ofTerms.includes(undefined)) return undefined;
  return [...new Set(ofTerms.flatMap((expression) => expression?.values ?? []))];
}

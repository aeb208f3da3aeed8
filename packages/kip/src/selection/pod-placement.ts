import type { Pod } from "@kip/k8s-types";

/** The usual label of a node's processors. A node has one value of it. */
export const architectureLabel = "kubernetes.io/arch";
const archLabels: readonly string[] = [architectureLabel, `beta.${architectureLabel}`];

/** What follows is the processor, so that one node can have the labels of several. */
export const architectureLabelPrefix = "node.elotl.co/arch-";

/** Keys of a node selector whose value is a kind of GPU: GKE's, that of EKS, Karpenter's. */
const gpuLabels: readonly string[] = [
  "cloud.google.com/gke-accelerator",
  "k8s.amazonaws.com/accelerator",
  "karpenter.k8s.aws/instance-gpu-name",
];

/**
 * The original's key: what follows is the kind, unless the value is. So one node can have the labels of several kinds.
 */
const gpuLabelPrefix = "node.elotl.co/gpu-";

/** Kinds of GPU that a pod's node selector names; its GPUs must be of all of them. */
export function gpuKinds({ spec }: Pod): readonly string[] {
  return Object.entries(spec.nodeSelector ?? {}).flatMap(([key, value]) => {
    if (gpuLabels.includes(key)) return [value];
    if (!key.startsWith(gpuLabelPrefix)) return [];
    return [value === "" ? key.slice(gpuLabelPrefix.length) : value];
  });
}

/**
 * Processors that a pod may have by its node selector and by the `In` of its required node affinity. Undefined if it says
 * nothing. The label of kip's own goes before the usual one, which says what other pods of the node get.
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
  // Terms are alternatives: one that leaves the processor open leaves it open for all.
  if (ofTerms.length === 0 || ofTerms.includes(undefined)) return undefined;
  return [...new Set(ofTerms.flatMap((expression) => expression?.values ?? []))];
}

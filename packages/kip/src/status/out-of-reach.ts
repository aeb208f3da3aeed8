import type { PodCondition } from "@kip/k8s-types";

/** Why a pod is not ready while its cell's agent does not respond. */
export function outOfReach(cellName: string): {
  readonly reason: string;
  readonly message: string;
} {
  const message = `Cell "${cellName}" does not answer; its containers may still run`;
  return { reason: "CellUnreachable", message };
}

/**
 * The conditions of a pod whose cell does not respond. The ones that Services depend on are false, just as Kubernetes' node
 * controller sets `Ready` for the pods of an unreachable node. A condition that is already false keeps its reason.
 *
 * @param known the published conditions; one that was false keeps its time
 * @param now as `metav1.Time`
 */
export function conditionsOutOfReach(
  conditions: readonly PodCondition[],
  cellName: string,
  { known, now }: { readonly known: readonly PodCondition[]; readonly now: string },
): PodCondition[] {
  return conditions.map((condition) => {
    const { type, status } = condition;
    if (status !== "True" || (type !== "Ready" && type !== "ContainersReady")) return condition;
    const before = known.find((each) => each.type === type);
    const since = before?.status === "False" ? before.lastTransitionTime : undefined;
    return { type, status: "False", ...outOfReach(cellName), lastTransitionTime: since ?? now };
  });
}

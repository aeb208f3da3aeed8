import type { PodCondition } from "@kip/k8s-types";
import type { ConditionVerdict } from "@kip/virtual-kubelet";
import type { CellMemory } from "../state/cell-memory.ts";

/** Kubernetes' own condition and reason of a pod that its node is about to end. */
const type = "DisruptionTarget";
const reason = "TerminationByKubelet";

/** One sentence that a person reads in an event and in the condition. */
export function interruptionMessage(instanceId: string, endsAt: string): string {
  return `The cloud takes instance "${instanceId}" of this pod back at ${endsAt}`;
}

/**
 * The condition of a pod whose cell the cloud takes back; false again once the pod has another cell. Nothing for any other
 * pod: the condition is also the scheduler's and the eviction API's, whose reasons are others.
 *
 * @see https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
 */
export function disruptionVerdict(
  { interruption }: Pick<CellMemory, "interruption">,
  known: readonly PodCondition[],
): readonly ConditionVerdict[] {
  if (interruption) {
    const message = interruptionMessage(interruption.instanceId, interruption.endsAt);
    return [{ type, status: "True", reason, message }];
  }
  const isOurs = known.some((condition) => condition.type === type && condition.reason === reason);
  if (!isOurs) return [];
  return [{ type, status: "False", reason, message: "The pod has another cell now" }];
}

import type { PodCondition } from "@kip/k8s-types";
import type { ConditionVerdict } from "@kip/virtual-kubelet/status";
import type { MachinePart } from "../state/cell-state.ts";

/** Kubernetes' condition and reason for a pod that its node is about to end. */
const type = "DisruptionTarget";
const reason = "TerminationByKubelet";

/** The message of the event and of the condition. */
export function interruptionMessage({
  instanceId,
  endsAt,
}: NonNullable<MachinePart["interruption"]>): string {
  return `The cloud takes instance "${instanceId}" of this pod back at ${endsAt}`;
}

/**
 * The condition of a pod whose cell the cloud takes back; false once the pod has another cell. None for any other pod: the
 * scheduler and the eviction API write this condition with reasons of their own.
 *
 * @see https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
 */
export function disruptionVerdict(
  { interruption }: Pick<MachinePart, "interruption">,
  known: readonly PodCondition[],
): readonly ConditionVerdict[] {
  if (interruption) {
    return [{ type, status: "True", reason, message: interruptionMessage(interruption) }];
  }
  const isOurs = known.some((condition) => condition.type === type && condition.reason === reason);
  if (!isOurs) return [];
  return [{ type, status: "False", reason, message: "The pod has another cell now" }];
}

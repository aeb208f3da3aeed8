import type { ReportedPod } from "@kip/agent-api";
import type { PodCondition } from "@kip/k8s-types";
import type { ConditionVerdict } from "@kip/virtual-kubelet/status";
import type { CellState, Interruption } from "../state/cell-state.ts";

/** Kubernetes' condition and reason for a pod that its node is about to end. */
const type = "DisruptionTarget";
const reason = "TerminationByKubelet";

/** The message of the event and of the condition. */
export function interruptionMessage({
  instanceId,
  endsAt,
}: Pick<Interruption, "instanceId" | "endsAt">): string {
  return `The cloud takes instance "${instanceId}" of this pod back at ${endsAt}`;
}

/**
 * The condition of a pod whose cell the cloud takes back, or has evicted it to protect itself; false once the pod has another
 * cell. None for any other pod: the scheduler and the eviction API write this condition with reasons of their own.
 *
 * @see https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
 */
export function disruptionVerdict(
  { machine, end }: Pick<CellState, "machine" | "end">,
  report: ReportedPod | undefined,
  known: readonly PodCondition[],
): readonly ConditionVerdict[] {
  const { interruption } = machine;
  if (interruption) {
    return [{ type, status: "True", reason, message: interruptionMessage(interruption) }];
  }
  if (report?.isDisruption === true)
    return [{ type, status: "True", reason, message: report.message ?? "" }];
  if (end.podEnd) return [];
  const isOurs = known.some((condition) => condition.type === type && condition.reason === reason);
  if (!isOurs) return [];
  return [{ type, status: "False", reason, message: "The pod has another cell now" }];
}

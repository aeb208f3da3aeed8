import type { ReportedPod } from "@kip/agent-api";
import type { PodCondition } from "@kip/k8s-types";
import type { ConditionVerdict } from "@kip/virtual-kubelet/status";
import type { CellState, Interruption } from "../state/cell-state.ts";
import { cellLost } from "./lost-containers.ts";

/** Kubernetes' condition type for a pod that its node is about to end. */
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
 * The condition `DisruptionTarget` of a pod whose cell the cloud reclaims, or whose cell has evicted it to protect itself. It
 * becomes false when the pod has another cell. A pod that failed with its cell also has it, so that a Job can retry without
 * counting the failure. A disruption that another client has written is kept. Undefined for any other pod, because the
 * scheduler and the eviction API write this condition with their own reasons.
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
  const before = known.find((condition) => condition.type === type);
  const isOurs = before?.reason === reason;
  if (end.podEnd?.reason === cellLost)
    return before?.status === "True" && !isOurs
      ? []
      : [{ type, status: "True", reason, message: end.podEnd.message ?? "" }];
  if (end.podEnd) return [];
  if (!isOurs) return [];
  return [{ type, status: "False", reason, message: "The pod has another cell now" }];
}

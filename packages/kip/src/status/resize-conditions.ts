import type { ReportedPod, ResizeReport } from "@kip/agent-api";
import { defined } from "@kip/base";
import type { ConditionVerdict } from "@kip/virtual-kubelet/status";

/**
 * The kubelet's conditions of a resize: `PodResizePending` while the cell is too small for it, and `PodResizeInProgress` from
 * its approval until all running containers have the requested resources. A pod without a resize, or that has ended, has
 * neither.
 *
 * @see https://kubernetes.io/docs/tasks/configure-pod-container/resize-container-resources/#pod-resize-status
 */
export function resizeVerdicts(report: ReportedPod | undefined): readonly ConditionVerdict[] {
  const { phase, resizePending, resizeInProgress } = report ?? {};
  if (phase === "Succeeded" || phase === "Failed") return [];
  return [
    ...verdict("PodResizePending", resizePending),
    ...verdict("PodResizeInProgress", resizeInProgress),
  ];
}

function verdict(type: string, resize: ResizeReport | undefined): readonly ConditionVerdict[] {
  if (!resize) return [];
  const { reason, message, podGeneration: observedGeneration } = resize;
  return [defined({ type, status: "True" as const, reason, message, observedGeneration })];
}

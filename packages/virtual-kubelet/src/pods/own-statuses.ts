import { errorText, isKipError } from "@kip/base";
import type { Pod, PodStatus } from "@kip/k8s-types";
import { goneStatuses, waitingStatuses } from "../status/container-statuses.ts";
import { podConditions } from "../status/pod-conditions.ts";

/**
 * The status of a pod that cannot start because something it refers to is missing.
 *
 * @param error why; of the container that its fact `container` names, if it names one
 * @param now as `metav1.Time`
 */
export function waitingStatus(pod: Pod, error: unknown, now: string): PodStatus {
  const container = isKipError(error) ? error.facts["container"] : undefined;
  const problem =
    typeof container === "string"
      ? { container, reason: "CreateContainerConfigError", message: errorText(error) }
      : undefined;
  const statuses = waitingStatuses(pod, problem);
  const conditions = podConditions(pod, { ...statuses, phase: "Pending", now });
  return { phase: "Pending", ...statuses, conditions };
}

/** Of a status that is invalid, the end of the pod: its phase, and what can be read of why. */
export function endOnly({ phase, reason, message }: PodStatus): PodStatus {
  return {
    ...(phase !== undefined && { phase }),
    ...(typeof reason === "string" && { reason }),
    ...(typeof message === "string" && { message }),
  };
}

/**
 * The last status of a pod that its provider removed without reporting an end: it has failed, and what
 * counted as running has ended with 137.
 *
 * @param now as `metav1.Time`
 */
export function goneStatus(pod: Pod, now: string): PodStatus {
  const last = { ...pod.status, ...goneStatuses(pod.status ?? {}, now), phase: "Failed" };
  const conditions = podConditions(pod, { ...last, isReadyToStart: false, now });
  return { ...last, conditions };
}

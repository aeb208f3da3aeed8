import { errorText, isKipError } from "@kip/base";
import type { Pod, PodStatus } from "@kip/k8s-types";
import { waitingStatuses } from "../status/container-statuses.ts";
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

// Statuses that the library writes itself if the provider has not reported a valid one.
import { defined, errorText } from "@kip/base";
import type { Pod, PodStatus } from "@kip/k8s-types";
import { VirtualKubeletError } from "../errors.ts";
import { endedStatuses, goneStatuses, waitingStatuses } from "../status/container-statuses.ts";
import { podConditions } from "../status/pod-conditions.ts";

/**
 * The status of a pod that cannot start because an object that it refers to is missing.
 *
 * @param error the reason. Its `container` may name the container
 * @param now as `metav1.Time`. As in a kubelet, the pod is active from then on
 */
export function waitingStatus(pod: Pod, error: unknown, now: string): PodStatus {
  const container = VirtualKubeletError.is(error) ? error.container : undefined;
  const problem =
    container !== undefined
      ? { container, reason: "CreateContainerConfigError", message: errorText(error) }
      : undefined;
  const statuses = waitingStatuses(pod, problem);
  const conditions = podConditions(pod, { ...statuses, phase: "Pending", now });
  return { phase: "Pending", startTime: pod.status?.startTime ?? now, ...statuses, conditions };
}

/** The status of a pod that its provider could not start. What the API already shows of its containers and address stays. */
export function providerFailedStatus({ status = {} }: Pod, message: string): PodStatus {
  const { initContainerStatuses, containerStatuses, podIP, podIPs } = status;
  const shown = defined({ initContainerStatuses, containerStatuses, podIP, podIPs });
  return { ...shown, phase: "Pending", reason: "ProviderFailed", message };
}

/** The usable parts of an invalid terminal status: phase, and reason and message if they are text. */
export function terminalFields({ phase, reason, message }: PodStatus): PodStatus {
  return defined({
    phase,
    reason: typeof reason === "string" ? reason : undefined,
    message: typeof message === "string" ? message : undefined,
  });
}

/**
 * The last status of a pod that is gone without a report of its end: running containers have ended with exit code 137. As in a
 * kubelet, the pod has failed, unless all its regular containers are known to have exited with 0.
 *
 * @param now as `metav1.Time`
 * @param last the last known status. @default the one in the API
 */
export function goneStatus(pod: Pod, now: string, last: PodStatus = pod.status ?? {}): PodStatus {
  return lastStatus(pod, { ...last, ...goneStatuses(pod, last, now) }, now);
}

/**
 * The last status of a pod that has failed before anything of it ran.
 *
 * @param now as `metav1.Time`
 */
export function neverRunStatus(pod: Pod, now: string): PodStatus {
  return lastStatus(pod, { ...pod.status, ...endedStatuses(pod, pod.status ?? {}) }, now);
}

function lastStatus(pod: Pod, status: PodStatus, now: string): PodStatus {
  const { containerStatuses = [] } = status;
  const completed = containerStatuses.filter(({ state }) => state?.terminated?.exitCode === 0);
  const phase = completed.length < pod.spec.containers.length ? "Failed" : "Succeeded";
  const conditions = podConditions(pod, { ...status, phase, isReadyToStart: false, now });
  return { ...status, phase, conditions };
}

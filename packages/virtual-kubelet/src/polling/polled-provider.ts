import type { PodStatus, Pod } from "@kip/k8s-types";
import type { PodProvider } from "../pod-provider.ts";

/**
 * A provider that does not report statuses itself. The library polls the status of each pod. Everything else is as in
 * {@link PodProvider}.
 */
export interface PolledPodProvider extends Omit<PodProvider, "start"> {
  /** Optional: called once, before all other calls. */
  start?(): Promise<void>;
  /**
   * The status of a pod. Undefined if the provider does not have the pod. Throws if the status is unknown, and the pod then
   * stays unchanged.
   */
  status(pod: Pod, signal: AbortSignal): Promise<PodStatus | undefined>;
  /**
   * Optional: the statuses of all pods by UID, in one answer. For a missing pod, {@link PolledPodProvider.status} is called
   * before it counts as gone.
   */
  statuses?(signal: AbortSignal): Promise<ReadonlyMap<string, PodStatus>>;
}

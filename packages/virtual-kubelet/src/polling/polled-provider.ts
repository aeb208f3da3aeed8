import type { PodStatus, Pod } from "@kip/k8s-types";
import type { PodProvider } from "../pod-provider.ts";

/**
 * A provider that does not report by itself: the library asks for the status of each pod. Everything
 * else is as in {@link PodProvider}.
 */
export interface PolledPodProvider extends Omit<PodProvider, "start"> {
  /** Optional: called once, before anything else. */
  start?(): Promise<void>;
  /**
   * The status of a pod; undefined if the provider does not have the pod. Throws when the status is
   * unknown: then the pod is left as it is.
   */
  status(pod: Pod, signal: AbortSignal): Promise<PodStatus | undefined>;
  /**
   * Optional: the statuses of all pods by UID, in one answer. A pod that is missing in it is asked for
   * with {@link PolledPodProvider.status} before it counts as gone.
   */
  statuses?(signal: AbortSignal): Promise<ReadonlyMap<string, PodStatus>>;
}

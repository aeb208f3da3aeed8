import type { Pod } from "@kip/k8s-types";
import { isFinished } from "./pod-changes.ts";

/** State of a pod's actor, in addition to the pod. */
export interface ActorState {
  /** The provider has not seen the newest content. */
  readonly isDirty: boolean;
  /** The API server has deleted the object. */
  readonly isGone: boolean;
  /** The provider has removed the pod by itself, for good. */
  readonly isDeletedByProvider: boolean;
  /** The provider's last report says that the pod has ended: nothing of it runs, and its logs are kept. */
  readonly isEnded: boolean;
  /** What still ran of the pod was stopped, because the pod is terminal in the API. */
  readonly isStopped: boolean;
  /** The provider has nothing left of the pod. */
  readonly isRemoved: boolean;
  /** The object's deletion was completed; finalizers of others may still hold it. */
  readonly isFinalized: boolean;
}

/**
 * What to do next for a pod:
 * - `apply`: give its newest content to the provider
 * - `finish`: have the provider stop what still runs of it, because it is terminal in the API
 * - `remove`: have the provider stop it, because its deletion is asked for
 * - `finalize`: write its last status and delete its object
 * - `forget`: have the provider drop it, because its object is gone
 */
export type Step = "apply" | "finish" | "remove" | "finalize" | "forget";

/** The next step; undefined if there is nothing to do. */
export function planStep(state: ActorState, pod: Pod): Step | undefined {
  if (state.isGone) return state.isRemoved ? undefined : "forget";
  if (pod.metadata.deletionTimestamp !== undefined || state.isDeletedByProvider) {
    if (!state.isRemoved) return "remove";
    return state.isFinalized ? undefined : "finalize";
  }
  if (state.isRemoved) return undefined;
  // Any client may have set the phase. Without a report in this process, an earlier process may have applied the pod.
  if (isFinished(pod)) return state.isEnded || state.isStopped ? undefined : "finish";
  return state.isDirty ? "apply" : undefined;
}

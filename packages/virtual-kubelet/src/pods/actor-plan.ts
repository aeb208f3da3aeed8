import type { Pod } from "@kip/k8s-types";
import { isFinished } from "./pod-changes.ts";

/** What a pod's actor knows besides the pod. */
export interface ActorState {
  /** The provider has not seen the newest content. */
  readonly isDirty: boolean;
  /** The API server has deleted the object. */
  readonly isGone: boolean;
  /** The provider has removed the pod by itself, for good. */
  readonly isDeletedByProvider: boolean;
  /** The provider has nothing of the pod any more. */
  readonly isRemoved: boolean;
  /** The object's deletion was completed; finalizers of others may still hold it. */
  readonly isFinalized: boolean;
}

/**
 * What to do next for a pod:
 * - `apply`: give its newest content to the provider
 * - `remove`: have the provider stop it, because its deletion is asked for
 * - `finalize`: write its last status and delete its object
 * - `forget`: have the provider drop it, because its object is gone
 */
export type Step = "apply" | "remove" | "finalize" | "forget";

/** The next step; undefined if all is as it should be. */
export function planStep(state: ActorState, pod: Pod): Step | undefined {
  if (state.isGone) return state.isRemoved ? undefined : "forget";
  if (pod.metadata?.deletionTimestamp !== undefined || state.isDeletedByProvider) {
    if (!state.isRemoved) return "remove";
    return state.isFinalized ? undefined : "finalize";
  }
  if (isFinished(pod) || state.isRemoved) return undefined;
  return state.isDirty ? "apply" : undefined;
}

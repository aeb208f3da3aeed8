import { wasClaimed, type CellState } from "../state/cell-state.ts";
import type { PodEnd } from "../state/cell.ts";
import { latestLists, waitingLists } from "./container-lists.ts";
import type { ContainerLists } from "./container-status.ts";
import { endByLoss } from "./lost-containers.ts";

/**
 * How the loss of its cell ends the pod, by {@link endByLoss}. Undefined if the pod gets another cell, or if the cell never had
 * it.
 *
 * @param details.finishedAt for containers that ran, as `metav1.Time`
 */
export function lossEnd(
  state: CellState,
  details: { readonly message: string; readonly finishedAt: string },
): PodEnd | undefined {
  const pod = state.pod.object;
  if (!pod || !wasClaimed(state.cell.status)) return undefined;
  return endByLoss(pod, latestLists(state, pod), details);
}

/**
 * The pod's container statuses after the loss of its cell: they are waiting for the next one. Undefined while the pod is not
 * known.
 */
export function listsAfterLoss(state: CellState): ContainerLists | undefined {
  const { object } = state.pod;
  return object && waitingLists(state, object);
}

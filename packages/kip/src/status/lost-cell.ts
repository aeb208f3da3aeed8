import { wasClaimed, type CellState } from "../state/cell-state.ts";
import type { PodEnd } from "../state/cell.ts";
import { latestLists, waitingLists, type ContainerLists } from "./container-lists.ts";
import { endByLoss } from "./lost-containers.ts";

/** How the loss of its cell ends the pod; undefined if the pod gets another cell. */
export function lossEnd(
  state: CellState,
  details: { readonly message: string; readonly finishedAt: string },
): PodEnd | undefined {
  const pod = state.pod.object;
  if (!pod || !wasClaimed(state.cell.status)) return undefined;
  return endByLoss(pod, latestLists(state, pod), details);
}

/** The pod's container statuses after the loss of its cell, by the status that was published last. */
export function listsAfterLoss(state: CellState): ContainerLists | undefined {
  const { object } = state.pod;
  return object && waitingLists(state, object);
}

import { wasClaimed, type CellMemory } from "../state/cell-memory.ts";
import type { PodEnd } from "../state/cell.ts";
import { latestLists } from "./container-lists.ts";
import { afterLoss, endByLoss } from "./lost-containers.ts";

/** How the loss of its cell ends the pod; undefined if the pod gets another cell. */
export function lossEnd(
  memory: CellMemory,
  details: { readonly message: string; readonly finishedAt: string },
): PodEnd | undefined {
  const { pod, status } = memory;
  if (!pod || !wasClaimed(status)) return undefined;
  return endByLoss(pod, latestLists(memory, pod), details);
}

/** The pod's container statuses after the loss of its cell, by the status that was published last. */
export function listsAfterLoss(memory: CellMemory): ReturnType<typeof afterLoss> | undefined {
  const { pod } = memory;
  return pod && afterLoss(pod, latestLists(memory, pod), memory);
}

import { isInUse } from "./cell-state.ts";
import type { Cell } from "./cell.ts";

/**
 * The Cells of a pod: first the one that has the pod, then by attempt, the newest first. A pod only has two Cells for a moment,
 * for example if the claim of a standby cell was written late.
 */
export function cellsOfPod(cells: readonly Cell[], podUid: string): readonly Cell[] {
  const hasPod = ({ metadata, status }: Cell): boolean =>
    metadata.deletionTimestamp === undefined && status !== undefined && isInUse(status.phase);
  return cells
    .filter((cell) => cell.spec.podRef.uid === podUid)
    .sort((a, b) => Number(hasPod(b)) - Number(hasPod(a)) || b.spec.attempt - a.spec.attempt);
}

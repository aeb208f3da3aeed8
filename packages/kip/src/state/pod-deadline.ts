import { wasClaimed, type CellMemory } from "./cell-memory.ts";

/** The kubelet's reason and message for a pod that took longer than its `activeDeadlineSeconds`. */
export const deadlineExceeded = {
  reason: "DeadlineExceeded",
  message: "Pod was active on the node longer than the specified deadline",
} as const;

/**
 * Milliseconds until a pod that waits for its cell exceeds its `activeDeadlineSeconds`; infinite without such a limit. Once
 * a cell has the pod, its agent enforces the limit.
 */
export function deadlineIn(memory: CellMemory, nowMs: number): number {
  const { wanted, isPodFinished, report, status, resolved } = memory;
  const seconds = resolved?.pod.spec.activeDeadlineSeconds;
  const activeMs = activeFor(memory, nowMs);
  const isOurs = wanted.kind === "run" && !isPodFinished && !report && !wasClaimed(status);
  if (!isOurs || seconds === undefined || activeMs === undefined) return Number.POSITIVE_INFINITY;
  return seconds * 1000 - activeMs;
}

/** For how long a pod has been active on all its cells, milliseconds; undefined before its start was reported. */
export function activeFor(
  { startTime, resolved }: Pick<CellMemory, "startTime" | "resolved">,
  nowMs: number,
): number | undefined {
  const since = startTime ?? resolved?.pod.status?.startTime;
  return since === undefined ? undefined : Math.max(0, nowMs - Date.parse(since));
}

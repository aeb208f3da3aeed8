import { totalmem } from "node:os";
import type { DesiredPod, ResourceAmounts } from "@kip/agent-api";

const MiB = 2 ** 20;

/**
 * Memory of the machine that is not the pod's, bytes: agent and container tools, 125 MiB while the agent is idle. What the kernel keeps for
 * itself is not in what it says to have, and what it takes for the pod's processes and files counts as the pod's.
 */
const reserveBytes = 128 * MiB;
/** What a machine's pod may use at least, bytes, however small the machine is. */
const leastBytes = 32 * MiB;
/** Part of the pod's memory that no tmpfs of its takes by itself, bytes: what writes to it and what `kubectl exec` starts needs some, too. */
const processBytes = 32 * MiB;

type HugePages = Pick<DesiredPod, "hugePages">;

/**
 * What all of a pod may use of the machine's memory, bytes, besides its huge pages: as all pods of a kubelet may use what is allocatable.
 *
 * @param totalBytes what the kernel has
 */
export function podMemory({ hugePages = [] }: HugePages, totalBytes = totalmem()): number {
  const pages = hugePages.reduce((sum, { bytes }) => sum + bytes, 0);
  return Math.max(leastBytes, totalBytes - reserveBytes - pages);
}

/** The largest tmpfs of a pod, bytes. */
export function largestTmpfs(pod: HugePages, totalBytes = totalmem()): number {
  return Math.max(leastBytes, podMemory(pod, totalBytes) - processBytes);
}

/** The limits of a pod's cgroup, by which the pod leaves the agent its memory. */
export function withinMachine(
  limits: ResourceAmounts,
  pod: HugePages,
  totalBytes = totalmem(),
): ResourceAmounts {
  const most = podMemory(pod, totalBytes);
  return { ...limits, memoryBytesLimit: Math.min(limits.memoryBytesLimit || most, most) };
}

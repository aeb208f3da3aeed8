import { totalmem } from "node:os";
import type { DesiredPod, ResourceAmounts } from "@kip/agent-api";

const MiB = 2 ** 20;

/**
 * Memory of the machine that the pod cannot use, bytes, for the agent and the container tools. They use 125 MiB while the agent
 * is idle. The kernel's total already excludes what the kernel reserves for itself, and kernel memory for the pod's processes
 * and files counts as the pod's.
 */
const reserveBytes = 128 * MiB;
/** Minimum memory of a machine's pod, bytes, however small the machine is. */
const leastBytes = 32 * MiB;
/**
 * Part of the pod's memory that a tmpfs cannot use alone, bytes. Processes that write to the tmpfs and those of `kubectl exec`
 * also need memory.
 */
const processBytes = 32 * MiB;

type HugePages = Pick<DesiredPod, "hugePages">;

/**
 * Memory that the whole pod may use in addition to its huge pages, bytes. Corresponds to a kubelet's allocatable memory for all
 * pods.
 *
 * @param totalBytes total memory according to the kernel
 */
export function podMemory({ hugePages = [] }: HugePages, totalBytes = totalmem()): number {
  const pages = hugePages.reduce((sum, { bytes }) => sum + bytes, 0);
  return Math.max(leastBytes, totalBytes - reserveBytes - pages);
}

/** Maximum size of a tmpfs of the pod, bytes. */
export function largestTmpfs(pod: HugePages, totalBytes = totalmem()): number {
  return Math.max(leastBytes, podMemory(pod, totalBytes) - processBytes);
}

/** Limits the pod's cgroup, so that the pod leaves enough memory for the agent. */
export function withinMachine(
  limits: ResourceAmounts,
  pod: HugePages,
  totalBytes = totalmem(),
): ResourceAmounts {
  const most = podMemory(pod, totalBytes);
  return { ...limits, memoryBytesLimit: Math.min(limits.memoryBytesLimit || most, most) };
}

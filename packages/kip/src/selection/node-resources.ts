import { formatBytes, formatMilliCpu, parseQuantity } from "@kip/base";
import type { InstanceTypeOffer } from "@kip/cloud";
import { mostResources, type ExtendedResources } from "./extended-resources.ts";

const hugePageBytes = 2 * 2 ** 20;

/** The original Kip's defaults. */
const original = { cpuMilli: 20_000, memoryBytes: 100 * 2 ** 30, pods: "20" } as const;

/**
 * The capacity of the virtual node. Configured resources are used as they are. Defaults of the others:
 *
 * - `cpu` and `memory`: 20 and 100Gi as in the original, but not more than the largest instance type has. The scheduler treats
 *   a node as one machine. It may bind a pod that requests everything that is free, and that pod must fit.
 * - `hugepages-2Mi`: all memory, because a cell reserves what its pod requests. Other sizes are only offered if configured,
 *   because not every machine has them.
 * - GPUs and other extended resources: the maximum that a type has, for the same reason as for `cpu`.
 * - `pods`: 20.
 * - `ephemeral-storage`: the root disk of a cell times the number of pods, because each has its own.
 *
 * @param configured keys and quantities of `kubelet` in `provider.yaml`
 */
export function nodeResources(
  configured: Readonly<Record<string, string>>,
  offers: readonly InstanceTypeOffer[],
  volumeBytes: number,
  extendedResources: ExtendedResources = {},
): Readonly<Record<string, string>> {
  const [largest] = [...offers].sort(
    (a, b) => b.cpuMilli - a.cpuMilli || b.memoryBytes - a.memoryBytes,
  );
  const cpuMilli = Math.min(original.cpuMilli, largest?.cpuMilli ?? original.cpuMilli);
  const memoryBytes = Math.min(original.memoryBytes, largest?.memoryBytes ?? original.memoryBytes);
  const pods = configured["pods"] ?? original.pods;
  return {
    cpu: formatMilliCpu(cpuMilli),
    memory: formatBytes(memoryBytes),
    "hugepages-2Mi": formatBytes(memoryBytes - (memoryBytes % hugePageBytes)),
    pods,
    "ephemeral-storage": formatBytes(volumeBytes * parseQuantity(pods)),
    ...mostResources(offers, extendedResources),
    ...configured,
  };
}

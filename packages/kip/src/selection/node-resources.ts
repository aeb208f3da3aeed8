import { formatBytes, parseQuantity } from "@kip/base";
import type { InstanceTypeOffer } from "@kip/cloud";

/** What the original Kip offers where nothing is configured. */
const original = { cpuMilli: 20_000, memoryBytes: 100 * 2 ** 30, pods: "20" } as const;

/**
 * What the virtual node offers to the scheduler. Resources of the configuration stay as they are. For the others:
 *
 * - `cpu` and `memory`: as the original, 20 and 100Gi, but no more than the largest instance type has. The scheduler
 *   takes a node for one machine: it binds a pod to it that asks for all that is free, and that pod must fit.
 * - `pods`: 20.
 * - `ephemeral-storage`: the root disk of a cell for each of the pods, as each has one of its own.
 *
 * @param configured keys and quantities of `kubelet` in `provider.yaml`
 */
export function nodeResources(
  configured: Readonly<Record<string, string>>,
  offers: readonly InstanceTypeOffer[],
  volumeBytes: number,
): Readonly<Record<string, string>> {
  const [largest] = [...offers].sort(
    (a, b) => b.cpuMilli - a.cpuMilli || b.memoryBytes - a.memoryBytes,
  );
  const cpuMilli = Math.min(original.cpuMilli, largest?.cpuMilli ?? original.cpuMilli);
  const memoryBytes = Math.min(original.memoryBytes, largest?.memoryBytes ?? original.memoryBytes);
  const pods = configured["pods"] ?? original.pods;
  return {
    cpu: cpuMilli % 1000 === 0 ? String(cpuMilli / 1000) : `${cpuMilli}m`,
    memory: formatBytes(memoryBytes),
    pods,
    "ephemeral-storage": formatBytes(volumeBytes * parseQuantity(pods)),
    ...configured,
  };
}

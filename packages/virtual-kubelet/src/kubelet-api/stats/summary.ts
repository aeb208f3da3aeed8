import { defined } from "@kip/base";
import { wireTime } from "@kip/k8s-client";
import type { NetworkUsage, Usage } from "../../usage.ts";
import type { CpuRates } from "./cpu-rates.ts";
import type { KnownPodUsage, NodeUsage } from "./node-usage.ts";

/**
 * The document of `/stats/summary`.
 * @see https://pkg.go.dev/k8s.io/kubelet/pkg/apis/stats/v1alpha1
 */
export function statsSummary(
  usage: NodeUsage,
  rates: CpuRates,
  options: { readonly onlyCpuAndMemory: boolean },
): object {
  const pods = usage.pods.map((pod) => podStats(pod, rates, options.onlyCpuAndMemory));
  const node = {
    nodeName: usage.nodeName,
    startTime: wireTime(usage.startTimeMs),
    ...cpuAndMemory("node", usage.total, rates),
  };
  rates.endLook();
  return { node, pods };
}

function podStats(usage: KnownPodUsage, rates: CpuRates, onlyCpuAndMemory: boolean): object {
  const { name, namespace, uid, creationTimestamp } = usage.pod.metadata;
  const { network } = usage;
  return defined({
    podRef: { name, namespace, uid },
    startTime: usage.pod.status?.startTime ?? creationTimestamp ?? null,
    containers: usage.containers.map((container) => ({
      name: container.name,
      startTime: container.startTimeMs === undefined ? null : wireTime(container.startTimeMs),
      ...cpuAndMemory(`${uid}/${container.name}`, container, rates),
    })),
    ...cpuAndMemory(uid, usage.total, rates),
    network: onlyCpuAndMemory ? undefined : networkStats(network),
  });
}

function networkStats(network: NetworkUsage | undefined): object | undefined {
  if (!network) return undefined;
  const { timeMs, receivedBytes: rxBytes, sentBytes: txBytes } = network;
  return { time: wireTime(timeMs), name: "eth0", rxBytes, txBytes };
}

/** What is not known is absent. */
function cpuAndMemory(key: string, usage: Usage, rates: CpuRates): object {
  const time = wireTime(usage.timeMs);
  const { cpuNanoseconds, memoryBytes, workingSetBytes } = usage;
  const usageNanoCores = rates.rate(key, usage);
  const hasMemory = memoryBytes !== undefined || workingSetBytes !== undefined;
  return defined({
    cpu:
      cpuNanoseconds === undefined
        ? undefined
        : defined({ time, usageNanoCores, usageCoreNanoSeconds: Math.round(cpuNanoseconds) }),
    memory: hasMemory ? defined({ time, usageBytes: memoryBytes, workingSetBytes }) : undefined,
  });
}

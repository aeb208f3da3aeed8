import type { Pod } from "@kip/k8s-types";
import type { ContainerUsage, NetworkUsage, ProviderStats, Usage } from "../../usage.ts";

/** What a pod uses, with what the API server knows of it. */
export interface KnownPodUsage {
  readonly pod: Pod;
  readonly containers: readonly ContainerUsage[];
  readonly total: Usage;
  readonly network?: NetworkUsage | undefined;
}

/** What a node and its pods use at one moment. */
export interface NodeUsage {
  readonly nodeName: string;
  /** When the node's kubelet API was started, milliseconds since the epoch. */
  readonly startTimeMs: number;
  readonly total: Usage;
  readonly pods: readonly KnownPodUsage[];
}

/** Joins what the provider measured with the pods of the node; others are left out. */
export function nodeUsage(
  stats: ProviderStats,
  pods: readonly Pod[],
  node: { readonly nodeName: string; readonly startTimeMs: number; readonly nowMs: number },
): NodeUsage {
  const byUid = new Map(stats.pods.map((usage) => [usage.uid, usage]));
  const known = pods.flatMap((pod): KnownPodUsage[] => {
    const usage = byUid.get(pod.metadata.uid);
    if (usage === undefined) return [];
    const { containers, network } = usage;
    const total = usage.total ?? sum(containers, node.nowMs);
    return [{ pod, containers, total, network }];
  });
  const { nodeName, startTimeMs } = node;
  const totals = known.map(({ total }) => total);
  return { nodeName, startTimeMs, pods: known, total: stats.node ?? sum(totals, node.nowMs) };
}

function sum(usages: readonly Usage[], nowMs: number): Usage {
  const add = (figure: (usage: Usage) => number | undefined): number =>
    usages.reduce((total, usage) => total + (figure(usage) ?? 0), 0);
  return {
    timeMs: usages.reduce((latest, { timeMs }) => Math.max(latest, timeMs), 0) || nowMs,
    cpuNanoseconds: add((usage) => usage.cpuNanoseconds),
    memoryBytes: add((usage) => usage.memoryBytes),
    workingSetBytes: add((usage) => usage.workingSetBytes),
  };
}

import type { Pod } from "@kip/k8s-types";
import type { FileSystemUsage, PodUsage, ProviderStats, Usage } from "../../usage.ts";

/** A pod's usage, with its object in the API. */
export interface KnownPodUsage extends Omit<PodUsage, "uid"> {
  readonly pod: Pod;
  readonly total: Usage;
}

/** The usage of a node and its pods at one time. */
export interface NodeUsage {
  readonly nodeName: string;
  /** When the node's kubelet API started, milliseconds since the epoch. */
  readonly startTimeMs: number;
  readonly total: Usage;
  /** The disks of all pods together. */
  readonly fileSystem?: FileSystemUsage | undefined;
  readonly pods: readonly KnownPodUsage[];
}

/** Options of {@link nodeUsage}. */
export interface NodeUsageOptions {
  readonly nodeName: string;
  readonly startTimeMs: number;
  readonly nowMs: number;
  /** Keeps the CPU time of deleted pods. */
  readonly cpu: NodeCpu;
}

/** CPU time of all pods of a node. The counter does not decrease when pods are removed. */
export class NodeCpu {
  #nanoseconds = 0;
  #last: ReadonlyMap<string, number> = new Map();

  /** The CPU time of all pods so far, including deleted ones. */
  add(pods: readonly KnownPodUsage[]): number {
    const now = new Map(
      pods.map(({ pod, total }) => {
        const { uid } = pod.metadata;
        const before = this.#last.get(uid) ?? 0;
        const { cpuNanoseconds = before } = total;
        this.#nanoseconds += Math.max(0, cpuNanoseconds - before);
        return [uid, cpuNanoseconds];
      }),
    );
    // A pod without figures this time continues from its last ones.
    this.#last = new Map([...this.#last, ...now]);
    return this.#nanoseconds;
  }

  /** Forgets deleted pods. */
  keep(uids: ReadonlySet<string>): void {
    this.#last = new Map([...this.#last].filter(([uid]) => uids.has(uid)));
  }
}

/** Combines the provider's measurements with the node's pods. Omits other pods. */
export function nodeUsage(
  stats: ProviderStats,
  pods: readonly Pod[],
  { nodeName, startTimeMs, nowMs, cpu }: NodeUsageOptions,
): NodeUsage {
  const byUid = new Map(stats.pods.map((usage) => [usage.uid, usage]));
  const known = pods.flatMap((pod): KnownPodUsage[] => {
    const usage = byUid.get(pod.metadata.uid);
    if (usage === undefined) return [];
    const { containers, total = sum(containers, nowMs) } = usage;
    const processes = total.processes ? undefined : countProcesses(containers);
    return [{ ...usage, pod, total: processes === undefined ? total : { ...total, processes } }];
  });
  cpu.keep(new Set(pods.map(({ metadata }) => metadata.uid)));
  const cpuNanoseconds = cpu.add(known);
  const totals = known.map(({ total }) => total);
  const total = stats.node ?? { ...sum(totals, nowMs), cpuNanoseconds };
  return { nodeName, startTimeMs, pods: known, total, fileSystem: sumOfDisks(known) };
}

/** A cgroup only counts its own processes, and the pod's has none. */
function countProcesses(containers: readonly Usage[]): number | undefined {
  const counts = containers.flatMap(({ processes }) => processes ?? []);
  return counts.length === 0 ? undefined : counts.reduce((total, count) => total + count, 0);
}

function sumOfDisks(pods: readonly KnownPodUsage[]): FileSystemUsage | undefined {
  const disks = pods.flatMap(({ ephemeralStorage }) => ephemeralStorage ?? []);
  if (disks.length === 0) return undefined;
  const add = (figure: (disk: FileSystemUsage) => number | undefined): number =>
    disks.reduce((total, disk) => total + (figure(disk) ?? 0), 0);
  const [sizeBytes, freeBytes] = [add((disk) => disk.sizeBytes), add((disk) => disk.freeBytes)];
  const [inodes, freeInodes] = [add((disk) => disk.inodes), add((disk) => disk.freeInodes)];
  return {
    timeMs: Math.max(...disks.map(({ timeMs }) => timeMs)),
    sizeBytes,
    freeBytes,
    usedBytes: Math.max(0, sizeBytes - freeBytes),
    inodes,
    freeInodes,
    usedInodes: Math.max(0, inodes - freeInodes),
  };
}

function sum(usages: readonly Usage[], nowMs: number): Usage {
  const add = (figure: (usage: Usage) => number | undefined): number =>
    usages.reduce((total, usage) => total + (figure(usage) ?? 0), 0);
  return {
    timeMs: usages.reduce((latest, { timeMs }) => Math.max(latest, timeMs), 0) || nowMs,
    cpuNanoseconds: add((usage) => usage.cpuNanoseconds),
    memoryBytes: add((usage) => usage.memoryBytes),
    workingSetBytes: add((usage) => usage.workingSetBytes),
    ...known(usages, ["rssBytes", "pageFaults", "majorPageFaults", "swapBytes"]),
  };
}

/** Sums of the figures, over those that have them. */
function known(
  usages: readonly Usage[],
  keys: readonly ("rssBytes" | "pageFaults" | "majorPageFaults" | "swapBytes")[],
): Partial<Usage> {
  return Object.fromEntries(
    keys.flatMap((key) => {
      const figures = usages.flatMap((usage) => usage[key] ?? []);
      return figures.length === 0 ? [] : [[key, figures.reduce((a, b) => a + b, 0)]];
    }),
  );
}

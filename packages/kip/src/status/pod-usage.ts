import { defined, ownValue } from "@kip/base";
import type { AgentStats, DiskStats, ReportedPod } from "@kip/agent-api";
import type { PodUsage, ProbeCounts } from "@kip/virtual-kubelet";
import type { Pod } from "@kip/k8s-types";
import type { CellStats, MeasuredPod } from "./cell-stats.ts";
import { containerNames } from "./restrict-report.ts";

type Usage = NonNullable<PodUsage["total"]>;
type FileSystemUsage = NonNullable<PodUsage["ephemeralStorage"]>;
type Walk = NonNullable<DiskStats["walk"]>;

/** The resource usage of pods, from their cells. Pods whose cell does not respond are left out. */
export async function measurePods(
  pods: readonly MeasuredPod[],
  cells: Pick<CellStats, "ask">,
  signal: AbortSignal,
): Promise<readonly PodUsage[]> {
  return await cells.ask(pods, signal, (pod, stats) => [
    podUsage(pod.uid, restrictStatsToPod(stats, pod.pod), pod.report),
  ]);
}

/** The probe counts of pods, from their cells. */
export async function countProbes(
  pods: readonly MeasuredPod[],
  cells: Pick<CellStats, "ask">,
  signal: AbortSignal,
): Promise<readonly ProbeCounts[]> {
  return await cells.ask(pods, signal, (pod, stats) => {
    const { probes = [] } = restrictStatsToPod(stats, pod.pod);
    return probes.map((counts) => ({ ...counts, uid: pod.uid }));
  });
}

/** Drops other containers and volumes, and duplicates, because a hostile cell must not fill the node's metrics. */
function restrictStatsToPod(stats: AgentStats, pod: Pod | undefined): AgentStats {
  const containers = pod ? containerNames(pod) : new Set<string>();
  const volumes = new Set(pod?.spec.volumes?.map(({ name }) => name));
  const probes = stats.probes?.filter(({ container }) => containers.has(container));
  const byProbe = new Map(probes?.map((each) => [`${each.kind} ${each.container}`, each]));
  const { disk } = stats;
  return {
    ...stats,
    containers: keep(stats.containers, containers),
    interfaces: stats.interfaces && unique(stats.interfaces, ({ name }) => name),
    disk: disk && {
      ...disk,
      mounts: keep(disk.mounts, volumes),
      walk: disk.walk && {
        ...disk.walk,
        containers: keep(disk.walk.containers, containers),
        volumes: keep(disk.walk.volumes, volumes),
      },
    },
    probes: [...byProbe.values()],
  };
}

function keep<T>(
  all: Readonly<Record<string, T>>,
  names: ReadonlySet<string>,
): Readonly<Record<string, T>> {
  return Object.fromEntries(Object.entries(all).filter(([name]) => names.has(name)));
}

function unique<T>(all: readonly T[], name: (each: T) => string): readonly T[] {
  return [...new Map(all.map((each) => [name(each), each])).values()];
}

/** Converts an agent's statistics to the virtual kubelet's form. */
export function podUsage(
  uid: string,
  stats: AgentStats,
  report: ReportedPod | undefined,
): PodUsage {
  const timeMs = Date.parse(stats.time);
  const { containers = [], initContainers = [], ephemeralContainers = [] } = report ?? {};
  const starts = new Map(
    [...initContainers, ...containers, ...ephemeralContainers].map(({ name, running }) => [
      name,
      Date.parse(running?.startedAt ?? ""),
    ]),
  );
  const { disk } = stats;
  return defined({
    uid,
    containers: Object.entries(stats.containers).map(([name, figures]) => {
      const startTimeMs = starts.get(name) ?? Number.NaN;
      const written = disk?.walk && ownValue(disk.walk.containers, name);
      return defined({
        name,
        ...usage(timeMs, figures),
        startTimeMs: Number.isFinite(startTimeMs) ? startTimeMs : undefined,
        rootFileSystem: disk && onDisk(disk, written?.files),
        logs: disk && onDisk(disk, written?.logs),
      });
    }),
    total: stats.pod && usage(timeMs, stats.pod),
    network: network(timeMs, stats.interfaces),
    volumes: disk && volumes(disk),
    ephemeralStorage: disk && onDisk(disk, disk.walk?.pod),
  });
}

function usage(timeMs: number, figures: AgentStats["containers"][string]): Usage {
  const { cpuUsageNanoseconds, memoryUsageBytes, memoryWorkingSetBytes, ...others } = figures;
  return {
    timeMs,
    cpuNanoseconds: cpuUsageNanoseconds,
    memoryBytes: memoryUsageBytes,
    workingSetBytes: memoryWorkingSetBytes,
    ...withUniqueDevices(others),
  };
}

function withUniqueDevices<T extends Pick<Usage, "devices">>(figures: T): T {
  const { devices } = figures;
  return devices ? { ...figures, devices: unique(devices, ({ device }) => device) } : figures;
}

function network(timeMs: number, interfaces: AgentStats["interfaces"]): PodUsage["network"] {
  if (!interfaces || interfaces.length === 0) return undefined;
  const sum = (key: "receivedBytes" | "sentBytes"): number =>
    interfaces.reduce((total, each) => total + each[key], 0);
  const [receivedBytes, sentBytes] = [sum("receivedBytes"), sum("sentBytes")];
  return { timeMs, receivedBytes, sentBytes, interfaces };
}

/** Usage of files on the cell's disk. Only known once the agent has walked through them. */
function onDisk(disk: DiskStats, files: Walk["pod"] | undefined): FileSystemUsage {
  const { sizeBytes, freeBytes, inodes, freeInodes } = disk;
  return {
    timeMs: Date.parse((files && disk.walk?.time) ?? disk.time),
    sizeBytes,
    freeBytes,
    inodes,
    freeInodes,
    usedBytes: files?.bytes,
    usedInodes: files?.inodes,
  };
}

/** Usage of volumes: for those with their own file system, what it has in use; for others, the size of their files. */
function volumes(disk: DiskStats): PodUsage["volumes"] {
  const files = disk.walk?.volumes ?? {};
  const all = [
    ...Object.entries(files).map(([name, each]) => ({ name, ...onDisk(disk, each) })),
    ...Object.entries(disk.mounts).map(([name, room]) => ({
      name,
      timeMs: Date.parse(disk.time),
      ...room,
      usedBytes: Math.max(0, room.sizeBytes - room.freeBytes),
      usedInodes: Math.max(0, room.inodes - room.freeInodes),
    })),
  ];
  return unique(all, ({ name }) => name);
}

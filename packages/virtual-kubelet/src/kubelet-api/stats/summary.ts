import { defined } from "@kip/base";
import { wireTime } from "@kip/k8s-client";
import type {
  ContainerUsage,
  FileSystemUsage,
  InterfaceUsage,
  NetworkUsage,
  Pressure,
  Usage,
} from "../../usage.ts";
import type { CpuRates } from "./cpu-rates.ts";
import type { KnownPodUsage, NodeUsage } from "./node-usage.ts";

/**
 * The document of `/stats/summary`.
 *
 * @see https://pkg.go.dev/k8s.io/kubelet/pkg/apis/stats/v1alpha1
 */
export function statsSummary(
  usage: NodeUsage,
  rates: CpuRates,
  options: { readonly onlyCpuAndMemory: boolean },
): object {
  const whole = !options.onlyCpuAndMemory;
  const pods = usage.pods.map((pod) => podStats(pod, rates, whole));
  const node = defined({
    nodeName: usage.nodeName,
    startTime: wireTime(usage.startTimeMs),
    ...cpuAndMemory("node", usage.total, rates),
    fs: whole ? fsStats(usage.fileSystem) : undefined,
  });
  rates.endMeasurement();
  return { node, pods };
}

function podStats(usage: KnownPodUsage, rates: CpuRates, whole: boolean): object {
  const { name, namespace, uid, creationTimestamp } = usage.pod.metadata;
  const { network, volumes, ephemeralStorage, total } = usage;
  return defined({
    podRef: { name, namespace, uid },
    startTime: usage.pod.status?.startTime ?? creationTimestamp ?? null,
    containers: usage.containers.map((container) =>
      containerStats(container, { key: `${uid}/${container.name}`, rates, whole }),
    ),
    ...cpuAndMemory(uid, total, rates),
    ...(whole && {
      io: ioStats(total),
      network: networkStats(network),
      volume: volumes?.map((volume) => ({ ...fsStats(volume), name: volume.name })),
      "ephemeral-storage": fsStats(ephemeralStorage),
      process_stats: total.processes === undefined ? undefined : { process_count: total.processes },
    }),
  });
}

function containerStats(
  container: ContainerUsage,
  options: { readonly key: string; readonly rates: CpuRates; readonly whole: boolean },
): object {
  const { key, rates, whole } = options;
  const { name, startTimeMs, rootFileSystem, logs } = container;
  return defined({
    name,
    startTime: startTimeMs === undefined ? null : wireTime(startTimeMs),
    ...cpuAndMemory(key, container, rates),
    ...(whole && {
      io: ioStats(container),
      rootfs: fsStats(rootFileSystem),
      logs: fsStats(logs),
    }),
  });
}

/** As in a kubelet, the counters of `eth0` appear twice. */
function networkStats(network: NetworkUsage | undefined): object | undefined {
  if (!network) return undefined;
  const { timeMs, receivedBytes, sentBytes } = network;
  const interfaces = (network.interfaces ?? [{ name: "eth0", receivedBytes, sentBytes }]).map(
    interfaceStats,
  );
  const main = interfaces.find(({ name }) => name === "eth0");
  return { time: wireTime(timeMs), ...(main ?? { name: "" }), interfaces };
}

function interfaceStats(usage: InterfaceUsage) {
  const { name, receivedBytes, receivedErrors, sentBytes, sentErrors } = usage;
  return defined({
    name,
    rxBytes: receivedBytes,
    rxErrors: receivedErrors,
    txBytes: sentBytes,
    txErrors: sentErrors,
  });
}

function fsStats(usage: FileSystemUsage | undefined): object | undefined {
  if (!usage) return undefined;
  const { timeMs, sizeBytes, freeBytes, usedBytes, inodes, freeInodes, usedInodes } = usage;
  return defined({
    time: wireTime(timeMs),
    availableBytes: freeBytes,
    capacityBytes: sizeBytes,
    usedBytes,
    inodesFree: freeInodes,
    inodes,
    inodesUsed: usedInodes,
  });
}

/** Unknown values are absent. */
function cpuAndMemory(key: string, usage: Usage, rates: CpuRates): object {
  const { timeMs, cpuNanoseconds } = usage;
  const time = wireTime(timeMs);
  const usageNanoCores = rates.rate(key, usage);
  return defined({
    cpu:
      cpuNanoseconds === undefined
        ? undefined
        : defined({
            time,
            usageNanoCores,
            usageCoreNanoSeconds: Math.round(cpuNanoseconds),
            psi: psiStats(usage.cpuPressure),
          }),
    memory: memoryStats(usage, time),
    swap: swapStats(usage, time),
  });
}

function memoryStats(usage: Usage, time: string): object | undefined {
  const { memoryBytes, workingSetBytes, memoryLimitBytes: limit } = usage;
  if (memoryBytes === undefined && workingSetBytes === undefined) return undefined;
  return defined({
    time,
    availableBytes:
      limit === undefined || workingSetBytes === undefined
        ? undefined
        : Math.max(0, limit - workingSetBytes),
    usageBytes: memoryBytes,
    workingSetBytes,
    rssBytes: usage.rssBytes,
    pageFaults: usage.pageFaults,
    majorPageFaults: usage.majorPageFaults,
    psi: psiStats(usage.memoryPressure),
  });
}

function swapStats(usage: Usage, time: string): object | undefined {
  const { swapBytes, swapLimitBytes: limit } = usage;
  if (swapBytes === undefined) return undefined;
  const swapAvailableBytes = limit === undefined ? undefined : Math.max(0, limit - swapBytes);
  return defined({ time, swapAvailableBytes, swapUsageBytes: swapBytes });
}

function ioStats({ timeMs, ioPressure }: Usage): object | undefined {
  return ioPressure && { time: wireTime(timeMs), psi: psiStats(ioPressure) };
}

/** The type says nanoseconds, but a kubelet passes on the kernel's microseconds. */
function psiStats(pressure: Pressure | undefined): object | undefined {
  if (!pressure) return undefined;
  const share = ({ totalMicroseconds: total, avg10, avg60, avg300 }: Pressure["full"]) => ({
    total,
    avg10,
    avg60,
    avg300,
  });
  return { full: share(pressure.full), some: share(pressure.some) };
}

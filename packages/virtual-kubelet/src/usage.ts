/** How long processes have waited for a resource, from Linux' pressure stall information. */
export interface PressureShare {
  /** Microseconds since the start. */
  readonly totalMicroseconds: number;
  /** Percentage of the last 10, 60 and 300 seconds. */
  readonly avg10: number;
  readonly avg60: number;
  readonly avg300: number;
}

/** Pressure on a resource: `some` means that at least one process waited, `full` that all did. */
export interface Pressure {
  readonly some: PressureShare;
  readonly full: PressureShare;
}

/** Reads from and writes to a block device since the start. */
export interface BlockDeviceUsage {
  /** For example `vda`. */
  readonly device: string;
  readonly readBytes: number;
  readonly writtenBytes: number;
  readonly reads: number;
  readonly writes: number;
}

/**
 * Resource usage of processes at one time. Unknown values and limits that are not set are absent. Counters begin at the start.
 */
export interface Usage {
  /** When it was measured, milliseconds since the epoch. */
  readonly timeMs: number;
  /** CPU time since the start, nanoseconds, in user mode and in the kernel. */
  readonly cpuNanoseconds?: number | undefined;
  readonly cpuUserNanoseconds?: number | undefined;
  readonly cpuSystemNanoseconds?: number | undefined;
  /**
   * Number of periods with a limit, number of periods in which it was reached, and how long processes were throttled in those.
   */
  readonly cpuPeriods?: number | undefined;
  readonly cpuThrottledPeriods?: number | undefined;
  readonly cpuThrottledNanoseconds?: number | undefined;
  /** The limit: CPU time per period. */
  readonly cpuQuotaMicroseconds?: number | undefined;
  readonly cpuPeriodMicroseconds?: number | undefined;
  /** Memory, including the file cache. */
  readonly memoryBytes?: number | undefined;
  /** Memory without the file cache that can be dropped at once. It counts against a limit. */
  readonly workingSetBytes?: number | undefined;
  readonly memoryLimitBytes?: number | undefined;
  /** Highest memory usage so far. */
  readonly memoryPeakBytes?: number | undefined;
  /** Anonymous memory. */
  readonly rssBytes?: number | undefined;
  readonly cacheBytes?: number | undefined;
  readonly mappedFileBytes?: number | undefined;
  readonly kernelBytes?: number | undefined;
  readonly activeFileBytes?: number | undefined;
  readonly inactiveFileBytes?: number | undefined;
  readonly pageFaults?: number | undefined;
  readonly majorPageFaults?: number | undefined;
  readonly swapBytes?: number | undefined;
  readonly swapLimitBytes?: number | undefined;
  /** Number of processes killed for lack of memory. */
  readonly oomKills?: number | undefined;
  readonly processes?: number | undefined;
  readonly threads?: number | undefined;
  readonly threadLimit?: number | undefined;
  readonly cpuPressure?: Pressure | undefined;
  readonly memoryPressure?: Pressure | undefined;
  readonly ioPressure?: Pressure | undefined;
  readonly devices?: readonly BlockDeviceUsage[] | undefined;
}

/** Usage of files, and of the file system that they are on. Unknown values are absent. */
export interface FileSystemUsage {
  /** When it was measured, milliseconds since the epoch. */
  readonly timeMs: number;
  readonly sizeBytes?: number | undefined;
  readonly freeBytes?: number | undefined;
  /** Usage of the files themselves. The file system may have others. */
  readonly usedBytes?: number | undefined;
  readonly inodes?: number | undefined;
  readonly freeInodes?: number | undefined;
  readonly usedInodes?: number | undefined;
}

/** Usage of a container. */
export interface ContainerUsage extends Usage {
  readonly name: string;
  /** Milliseconds since the epoch. */
  readonly startTimeMs?: number | undefined;
  /** Files written by the container, without volumes. */
  readonly rootFileSystem?: FileSystemUsage | undefined;
  readonly logs?: FileSystemUsage | undefined;
}

/** Counters of a network interface since the pod's start. */
export interface InterfaceUsage {
  readonly name: string;
  readonly receivedBytes: number;
  readonly sentBytes: number;
  readonly receivedPackets?: number | undefined;
  readonly receivedErrors?: number | undefined;
  readonly receivedDropped?: number | undefined;
  readonly sentPackets?: number | undefined;
  readonly sentErrors?: number | undefined;
  readonly sentDropped?: number | undefined;
}

/** Bytes received and sent by a pod since its start. */
export interface NetworkUsage {
  /** Milliseconds since the epoch. */
  readonly timeMs: number;
  /** Sum over all interfaces. */
  readonly receivedBytes: number;
  readonly sentBytes: number;
  /** @default one interface `eth0` with the pod's bytes */
  readonly interfaces?: readonly InterfaceUsage[] | undefined;
}

/** A volume of a pod. */
export interface VolumeUsage extends FileSystemUsage {
  /** Its name in `spec.volumes`. */
  readonly name: string;
}

/** Usage of a pod. */
export interface PodUsage {
  readonly uid: string;
  readonly containers: readonly ContainerUsage[];
  /** Usage of the whole pod. @default the sum of its containers */
  readonly total?: Usage | undefined;
  readonly network?: NetworkUsage | undefined;
  readonly volumes?: readonly VolumeUsage[] | undefined;
  /** The pod's whole disk usage: files of containers, logs and emptyDirs. */
  readonly ephemeralStorage?: FileSystemUsage | undefined;
}

/** Usage of a node's pods. Omits pods without figures. */
export interface ProviderStats {
  readonly pods: readonly PodUsage[];
  /** Usage of the whole node. @default the sum of its pods */
  readonly node?: Usage | undefined;
}

/** Results of one kind of probe of one container since its pod was started. */
export interface ProbeCounts {
  /** UID of the pod. */
  readonly uid: string;
  readonly container: string;
  readonly kind: "Liveness" | "Readiness" | "Startup";
  readonly successful: number;
  readonly failed: number;
  /** Probes with an unknown result. @default 0 */
  readonly unknown?: number | undefined;
}

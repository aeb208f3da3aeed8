/** How long processes have waited for a resource, as Linux' pressure stall information has it. */
export interface PressureShare {
  /** Since the start, microseconds. */
  readonly totalMicroseconds: number;
  /** Percent of the last 10, 60 and 300 seconds. */
  readonly avg10: number;
  readonly avg60: number;
  readonly avg300: number;
}

/** Pressure on a resource: `some` while at least one process waited, `full` while all did. */
export interface Pressure {
  readonly some: PressureShare;
  readonly full: PressureShare;
}

/** What was read from and written to a block device since the start. */
export interface BlockDeviceUsage {
  /** For example `vda`. */
  readonly device: string;
  readonly readBytes: number;
  readonly writtenBytes: number;
  readonly reads: number;
  readonly writes: number;
}

/** What processes use at one moment; what is not known is absent, and so are limits that are not set. Counters begin with the start. */
export interface Usage {
  /** When it was measured, milliseconds since the epoch. */
  readonly timeMs: number;
  /** Processor time since the start, nanoseconds; all of it, in user mode and in the kernel. */
  readonly cpuNanoseconds?: number | undefined;
  readonly cpuUserNanoseconds?: number | undefined;
  readonly cpuSystemNanoseconds?: number | undefined;
  /** Periods that a limit was applied in, those in which it was reached, and how long processes were held then. */
  readonly cpuPeriods?: number | undefined;
  readonly cpuThrottledPeriods?: number | undefined;
  readonly cpuThrottledNanoseconds?: number | undefined;
  /** The limit: so much processor time in a period. */
  readonly cpuQuotaMicroseconds?: number | undefined;
  readonly cpuPeriodMicroseconds?: number | undefined;
  /** Memory, file cache included. */
  readonly memoryBytes?: number | undefined;
  /** Memory without the file cache that can be dropped at once; what is held against a limit. */
  readonly workingSetBytes?: number | undefined;
  readonly memoryLimitBytes?: number | undefined;
  /** The most memory it has used. */
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
  /** Processes that were killed for lack of memory. */
  readonly oomKills?: number | undefined;
  readonly processes?: number | undefined;
  readonly threads?: number | undefined;
  readonly threadLimit?: number | undefined;
  readonly cpuPressure?: Pressure | undefined;
  readonly memoryPressure?: Pressure | undefined;
  readonly ioPressure?: Pressure | undefined;
  readonly devices?: readonly BlockDeviceUsage[] | undefined;
}

/** Files, and the file system that they are on; what is not known is absent. */
export interface FileSystemUsage {
  /** When it was measured, milliseconds since the epoch. */
  readonly timeMs: number;
  readonly sizeBytes?: number | undefined;
  readonly freeBytes?: number | undefined;
  /** Of the files themselves; others may be on the same file system. */
  readonly usedBytes?: number | undefined;
  readonly inodes?: number | undefined;
  readonly freeInodes?: number | undefined;
  readonly usedInodes?: number | undefined;
}

/** What a container uses. */
export interface ContainerUsage extends Usage {
  readonly name: string;
  /** Milliseconds since the epoch. */
  readonly startTimeMs?: number | undefined;
  /** What it has written beside volumes. */
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

/** Bytes that a pod has received and sent since its start. */
export interface NetworkUsage {
  /** Milliseconds since the epoch. */
  readonly timeMs: number;
  /** Of all interfaces together. */
  readonly receivedBytes: number;
  readonly sentBytes: number;
  /** @default one, `eth0`, with the bytes of the pod */
  readonly interfaces?: readonly InterfaceUsage[] | undefined;
}

/** A volume of a pod. */
export interface VolumeUsage extends FileSystemUsage {
  /** As `spec.volumes` has it. */
  readonly name: string;
}

/** What a pod uses. */
export interface PodUsage {
  readonly uid: string;
  readonly containers: readonly ContainerUsage[];
  /** The pod as a whole. @default the sum of its containers */
  readonly total?: Usage | undefined;
  readonly network?: NetworkUsage | undefined;
  readonly volumes?: readonly VolumeUsage[] | undefined;
  /** All that it has on the disk: files of containers, logs and emptyDirs. */
  readonly ephemeralStorage?: FileSystemUsage | undefined;
}

/** What the pods of a node use; pods whose figures are not available are left out. */
export interface ProviderStats {
  readonly pods: readonly PodUsage[];
  /** The node as a whole. @default the sum of its pods */
  readonly node?: Usage | undefined;
}

/** How the probes of one kind of one container went since its pod was started. */
export interface ProbeCounts {
  /** UID of the pod. */
  readonly uid: string;
  readonly container: string;
  readonly kind: "Liveness" | "Readiness" | "Startup";
  readonly successful: number;
  readonly failed: number;
  /** Probes without a known outcome. @default 0 */
  readonly unknown?: number | undefined;
}

/** How long processes have waited for a resource, from the kernel's pressure stall information. */
export interface PressureShare {
  /** Time since the cgroup was created. */
  readonly totalMicroseconds: number;
  /** Percentage of the last 10, 60 and 300 seconds. */
  readonly avg10: number;
  readonly avg60: number;
  readonly avg300: number;
}

/**
 * Pressure on a resource: `some` means that at least one process waited, `full` that all did.
 *
 * @see https://docs.kernel.org/accounting/psi.html
 */
export interface Pressure {
  readonly some: PressureShare;
  readonly full: PressureShare;
}

/** Reads from and writes to a block device. */
export interface BlockDeviceUsage {
  /** The kernel's name, for example `vda`. */
  readonly device: string;
  readonly readBytes: number;
  readonly writtenBytes: number;
  readonly reads: number;
  readonly writes: number;
}

/**
 * Resource usage of a cgroup and its descendants. Counters start with the cgroup. Values that the kernel does not have
 * (disabled controllers, files of newer versions) are absent, and so are limits that are not set.
 *
 * @see https://docs.kernel.org/admin-guide/cgroup-v2.html
 */
export interface CgroupUsage {
  readonly cpuUsageNanoseconds: number;
  readonly cpuUserNanoseconds?: number | undefined;
  readonly cpuSystemNanoseconds?: number | undefined;
  /** Number of periods, number of periods in which the limit was reached, and how long processes waited in those. */
  readonly cpuPeriods?: number | undefined;
  readonly cpuThrottledPeriods?: number | undefined;
  readonly cpuThrottledNanoseconds?: number | undefined;
  /** The limit: processor time per period. */
  readonly cpuQuotaMicroseconds?: number | undefined;
  readonly cpuPeriodMicroseconds?: number | undefined;
  readonly memoryUsageBytes: number;
  /** Usage without the file cache that can be dropped at once. */
  readonly memoryWorkingSetBytes: number;
  readonly memoryLimitBytes?: number | undefined;
  /** Highest usage so far. */
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
  /** Number of processes in the cgroup itself, without its descendants. */
  readonly processes?: number | undefined;
  readonly threads?: number | undefined;
  readonly threadLimit?: number | undefined;
  readonly cpuPressure?: Pressure | undefined;
  readonly memoryPressure?: Pressure | undefined;
  readonly ioPressure?: Pressure | undefined;
  readonly devices?: readonly BlockDeviceUsage[] | undefined;
}

/** How long processes have waited for a resource, as the kernel's pressure stall information has it. */
export interface PressureShare {
  /** Since the cgroup was made. */
  readonly totalMicroseconds: number;
  /** Percent of the last 10, 60 and 300 seconds. */
  readonly avg10: number;
  readonly avg60: number;
  readonly avg300: number;
}

/**
 * Pressure on a resource: `some` while at least one process waited, `full` while all did.
 * @see https://docs.kernel.org/accounting/psi.html
 */
export interface Pressure {
  readonly some: PressureShare;
  readonly full: PressureShare;
}

/** What was read from and written to a block device. */
export interface BlockDeviceUsage {
  /** The kernel's name, for example `vda`. */
  readonly device: string;
  readonly readBytes: number;
  readonly writtenBytes: number;
  readonly reads: number;
  readonly writes: number;
}

/**
 * What the processes of a cgroup and all below it use. Counters begin with the cgroup. What the kernel does not
 * have (controllers that are off, files of newer versions) is absent, and so are limits that are not set.
 * @see https://docs.kernel.org/admin-guide/cgroup-v2.html
 */
export interface CgroupUsage {
  readonly cpuUsageNanoseconds: number;
  readonly cpuUserNanoseconds?: number | undefined;
  readonly cpuSystemNanoseconds?: number | undefined;
  /** Periods in which the limit was looked at, those in which it was reached, and how long processes waited then. */
  readonly cpuPeriods?: number | undefined;
  readonly cpuThrottledPeriods?: number | undefined;
  readonly cpuThrottledNanoseconds?: number | undefined;
  /** The limit: so much processor time in a period. */
  readonly cpuQuotaMicroseconds?: number | undefined;
  readonly cpuPeriodMicroseconds?: number | undefined;
  readonly memoryUsageBytes: number;
  /** Usage without the file cache that can be dropped at once. */
  readonly memoryWorkingSetBytes: number;
  readonly memoryLimitBytes?: number | undefined;
  /** The most it has used. */
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
  /** Processes killed for lack of memory. */
  readonly oomKills?: number | undefined;
  /** Of the cgroup itself, without those below. */
  readonly processes?: number | undefined;
  readonly threads?: number | undefined;
  readonly threadLimit?: number | undefined;
  readonly cpuPressure?: Pressure | undefined;
  readonly memoryPressure?: Pressure | undefined;
  readonly ioPressure?: Pressure | undefined;
  readonly devices?: readonly BlockDeviceUsage[] | undefined;
}

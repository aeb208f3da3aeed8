import { readFileSync, readlinkSync } from "node:fs";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { defined } from "@kip/base";
import type {
  BlockDeviceUsage,
  CgroupUsage,
  Pressure,
  PressureShare,
} from "../contract/cgroup-usage.ts";

const root = "/sys/fs/cgroup";

/**
 * Reads the usage of a cgroup v2, with the same rules as cAdvisor. The files are in memory, so reading them synchronously is
 * faster than using other threads.
 *
 * @param cgroup path relative to the root of the tree
 * @throws system errors, for example `ENOENT` if the cgroup is gone
 */
export function readCgroupUsage(cgroup: string, folder: string = root): CgroupUsage {
  const optional = (name: string): string | undefined => {
    try {
      return readFileSync(`${folder}${cgroup}/${name}`, "utf8");
    } catch {
      return undefined; // of a disabled controller, or of a newer kernel
    }
  };
  return defined({
    ...processorUsage(readFileSync(`${folder}${cgroup}/cpu.stat`, "utf8"), optional("cpu.max")),
    ...memoryUsage(readFileSync(`${folder}${cgroup}/memory.current`, "utf8"), optional),
    processes: optional("cgroup.procs")
      ?.split("\n")
      .filter((line) => line !== "").length,
    threads: numberOf(optional("pids.current")),
    threadLimit: numberOf(optional("pids.max")),
    cpuPressure: pressure(optional("cpu.pressure")),
    memoryPressure: pressure(optional("memory.pressure")),
    ioPressure: pressure(optional("io.pressure")),
    devices: devices(optional("io.stat")),
  });
}

function processorUsage(stat: string, limit: string | undefined) {
  const keys = flatKeys(stat);
  const nanoseconds = (key: string): number | undefined => {
    const microseconds = keys.get(key);
    return microseconds === undefined ? undefined : microseconds * 1000;
  };
  const [quota, period] = limit?.trim().split(" ") ?? [];
  const isLimited = numberOf(quota) !== undefined;
  // The kernel has these counters even without a limit. cAdvisor then omits them.
  return {
    cpuUsageNanoseconds: nanoseconds("usage_usec") ?? 0,
    cpuUserNanoseconds: nanoseconds("user_usec"),
    cpuSystemNanoseconds: nanoseconds("system_usec"),
    cpuPeriods: isLimited ? keys.get("nr_periods") : undefined,
    cpuThrottledPeriods: isLimited ? keys.get("nr_throttled") : undefined,
    cpuThrottledNanoseconds: isLimited ? nanoseconds("throttled_usec") : undefined,
    cpuQuotaMicroseconds: numberOf(quota),
    cpuPeriodMicroseconds: numberOf(period),
  };
}

function memoryUsage(current: string, optional: (name: string) => string | undefined) {
  const usage = Number(current.trim());
  const keys = flatKeys(optional("memory.stat") ?? "");
  return {
    memoryUsageBytes: usage,
    memoryWorkingSetBytes: Math.max(0, usage - (keys.get("inactive_file") ?? 0)),
    memoryLimitBytes: numberOf(optional("memory.max")),
    memoryPeakBytes: numberOf(optional("memory.peak")),
    rssBytes: keys.get("anon"),
    cacheBytes: keys.get("file"),
    mappedFileBytes: keys.get("file_mapped"),
    kernelBytes: keys.get("kernel"),
    activeFileBytes: keys.get("active_file"),
    inactiveFileBytes: keys.get("inactive_file"),
    pageFaults: keys.get("pgfault"),
    majorPageFaults: keys.get("pgmajfault"),
    swapBytes: numberOf(optional("memory.swap.current")),
    swapLimitBytes: numberOf(optional("memory.swap.max")),
    oomKills: flatKeys(optional("memory.events") ?? "").get("oom_kill"),
  };
}

/** The number in a file. Undefined for `max`, or if the file does not exist. */
function numberOf(text: string | undefined): number | undefined {
  const value = Number(text?.trim() || Number.NaN);
  return Number.isFinite(value) ? value : undefined;
}

/** Parses `some avg10=0.00 avg60=0.00 avg300=0.00 total=0` and the same for `full`, which old kernels lack for processors. */
function pressure(text: string | undefined): Pressure | undefined {
  if (text === undefined || !text.startsWith("some ")) return undefined;
  const of = (kind: string): PressureShare => {
    const line = text.split("\n").find((each) => each.startsWith(`${kind} `)) ?? "";
    const pairs = line.split(" ").slice(1);
    return {
      totalMicroseconds: valueOf(pairs, "total"),
      avg10: valueOf(pairs, "avg10"),
      avg60: valueOf(pairs, "avg60"),
      avg300: valueOf(pairs, "avg300"),
    };
  };
  return { some: of("some"), full: of("full") };
}

/** Parses `254:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0`, one line per device. */
function devices(text: string | undefined): readonly BlockDeviceUsage[] | undefined {
  return text?.split("\n").flatMap((line) => {
    const [numbers = "", ...pairs] = line.split(" ");
    if (!/^\d+:\d+ .*=/.test(line)) return [];
    return [
      {
        device: deviceName(numbers),
        readBytes: valueOf(pairs, "rbytes"),
        writtenBytes: valueOf(pairs, "wbytes"),
        reads: valueOf(pairs, "rios"),
        writes: valueOf(pairs, "wios"),
      },
    ];
  });
}

/** The number in `key=number`, or 0 if it is missing. */
function valueOf(pairs: readonly string[], key: string): number {
  return Number(pairs.find((pair) => pair.startsWith(`${key}=`))?.slice(key.length + 1) ?? 0);
}

const deviceNames = new Map<string, string>();

/** The name of a device with the numbers `254:0`, or the numbers if it has no name. */
function deviceName(numbers: string): string {
  const known = deviceNames.get(numbers);
  if (known !== undefined) return known;
  let name = numbers;
  try {
    name = path.basename(readlinkSync(`/sys/dev/block/${numbers}`));
  } catch {
    // The device was removed.
  }
  deviceNames.set(numbers, name);
  return name;
}

/** Whether the kernel killed a process of the cgroup for lack of memory. */
export async function wasOomKilled(cgroup: string): Promise<boolean> {
  const events = await readFile(`${root}${cgroup}/memory.events`, "utf8").catch(() => "");
  return (flatKeys(events).get("oom_kill") ?? 0) > 0;
}

/** Parses the kernel's `key value` lines. */
export function flatKeys(text: string): ReadonlyMap<string, number> {
  return new Map(
    text.split("\n").flatMap((line): (readonly [string, number])[] => {
      const [key = "", value] = line.split(" ");
      return value === undefined ? [] : [[key, Number(value)]];
    }),
  );
}

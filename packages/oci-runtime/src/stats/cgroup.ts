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
 * What a cgroup v2 uses, as cAdvisor reads it. The files are the kernel's memory: reading them one after the other costs
 * less than handing each to another thread.
 *
 * @param cgroup seen from the root of the tree
 * @throws Error of the system, for example `ENOENT` where the cgroup has gone
 */
export function readCgroupUsage(cgroup: string, folder: string = root): CgroupUsage {
  const optional = (name: string): string | undefined => {
    try {
      return readFileSync(`${folder}${cgroup}/${name}`, "utf8");
    } catch {
      return undefined; // of a controller that is off, or a newer kernel
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
  // The kernel has the lines of a limit without one, too, where cAdvisor has none.
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

/** A file with one number; undefined for `max`, and without the file. */
function numberOf(text: string | undefined): number | undefined {
  const value = Number(text?.trim() || Number.NaN);
  return Number.isFinite(value) ? value : undefined;
}

/** `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`, and the same for `full`, which old kernels lack for processors. */
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

/** `254:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0`, a line for each device. */
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

/** The number in `key=number`; 0 without it. */
function valueOf(pairs: readonly string[], key: string): number {
  return Number(pairs.find((pair) => pair.startsWith(`${key}=`))?.slice(key.length + 1) ?? 0);
}

const deviceNames = new Map<string, string>();

/** The name of a device by its numbers, `254:0`; the numbers where it has none. */
function deviceName(numbers: string): string {
  const known = deviceNames.get(numbers);
  if (known !== undefined) return known;
  let name = numbers;
  try {
    name = path.basename(readlinkSync(`/sys/dev/block/${numbers}`));
  } catch {
    // It was taken out.
  }
  deviceNames.set(numbers, name);
  return name;
}

/** Whether the kernel has killed a process of the cgroup for lack of memory. */
export async function wasOomKilled(cgroup: string): Promise<boolean> {
  const events = await readFile(`${root}${cgroup}/memory.events`, "utf8").catch(() => "");
  return (flatKeys(events).get("oom_kill") ?? 0) > 0;
}

/** The kernel's `key value` lines. */
export function flatKeys(text: string): ReadonlyMap<string, number> {
  return new Map(
    text.split("\n").flatMap((line): (readonly [string, number])[] => {
      const [key = "", value] = line.split(" ");
      return value === undefined ? [] : [[key, Number(value)]];
    }),
  );
}

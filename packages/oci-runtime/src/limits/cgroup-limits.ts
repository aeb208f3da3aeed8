import { closeSync, mkdirSync, openSync, readFileSync, writeSync } from "node:fs";
import path from "node:path";
import type { ContainerResources } from "../contract/container-spec.ts";

/** Where the tree of cgroups is mounted. */
const mountPoint = "/sys/fs/cgroup";

/** Length of a CPU quota period in microseconds: the kernel's and the kubelet's default. */
export const cpuPeriodMicroseconds = 100_000;

/** The kubelet's conversion: never below one millisecond, the kernel's least. */
export function cpuQuota(milli: number): number {
  return Math.max(1000, Math.trunc((milli * cpuPeriodMicroseconds) / 1000));
}

/**
 * The weight of a cgroup v2 for a request: 1024 shares for a processor as the kubelet counts them, 2 to 262144, which become 1 to 10000.
 *
 * @see https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/2254-cgroup-v2#phase-1-convert-from-cgroups-v1-settings-to-v2
 */
export function cpuWeight(milli: number): number {
  const shares = Math.min(262_144, Math.max(2, Math.trunc((milli * 1024) / 1000)));
  return 1 + Math.trunc(((shares - 2) * 9999) / 262_142);
}

/** The files of a cgroup with what they are to hold. No request is the least weight, no limit is `max`. */
export function cgroupFiles(resources: ContainerResources): Readonly<Record<string, string>> {
  const { cpuMilliLimit = 0, cpuMilliRequest = 0, memoryBytesLimit = 0 } = resources;
  const quota = cpuMilliLimit > 0 ? String(cpuQuota(cpuMilliLimit)) : "max";
  return {
    "memory.max": memoryBytesLimit > 0 ? String(memoryBytesLimit) : "max",
    "cpu.max": `${quota} ${cpuPeriodMicroseconds}`,
    "cpu.weight": String(cpuWeight(cpuMilliRequest)),
    ...hugePageFiles(resources),
  };
}

/** Both what is used and what is reserved by a mapping is limited, as runc does it. */
export function hugePageFiles({
  hugePages = [],
}: ContainerResources): Readonly<Record<string, string>> {
  const files = hugePages.flatMap(({ pageBytes, bytes }) => {
    const size = `hugetlb.${pageSizeName(pageBytes)}`;
    return [`${size}.max`, `${size}.rsvd.max`].map((name) => [name, String(bytes)]);
  });
  return Object.fromEntries(files);
}

/** As the kernel names the files of a page size: in the largest unit in which it is 1 or more. */
function pageSizeName(pageBytes: number): string {
  const units = ["B", "KB", "MB", "GB"];
  const power = Math.min(units.length - 1, Math.floor(Math.log2(pageBytes) / 10));
  return `${pageBytes / 1024 ** power}${units[power]}`;
}

/**
 * Limits a cgroup that is there.
 *
 * @param cgroup seen from the root of the tree
 * @throws Error of the system, for example `ENOENT` where the cgroup has gone
 */
export function limitCgroup(
  cgroup: string,
  resources: ContainerResources,
  root: string = mountPoint,
): void {
  for (const [file, text] of Object.entries(cgroupFiles(resources)))
    write(`${root}${cgroup}/${file}`, text);
}

/**
 * Makes a cgroup whose limits can be set. Does nothing to one that is there.
 *
 * @throws Error of the system
 */
export function makeCgroup(cgroup: string, root: string = mountPoint): void {
  mkdirSync(`${root}${cgroup}`, { recursive: true });
  // From the root down: a controller is there only where the cgroup above hands it on.
  const above = [];
  for (let one = path.dirname(cgroup); one !== "/"; one = path.dirname(one)) above.unshift(one);
  for (const one of above)
    for (const controller of ["cpu", "memory", "pids", "hugetlb"]) {
      try {
        write(`${root}${one}/cgroup.subtree_control`, `+${controller}`);
      } catch {
        // A controller that is missing is missed where its limit is set.
      }
    }
}

/** Memory that a cgroup uses now, with all below it, bytes; undefined if that cannot be read. */
export function memoryUsage(cgroup: string, root: string = mountPoint): number | undefined {
  try {
    return Number(readFileSync(`${root}${cgroup}/memory.current`, "utf8"));
  } catch {
    return undefined;
  }
}

/** One write, and none that makes a file: the kernel takes each as a whole. */
function write(file: string, text: string): void {
  const descriptor = openSync(file, "r+");
  try {
    writeSync(descriptor, text);
  } finally {
    closeSync(descriptor);
  }
}

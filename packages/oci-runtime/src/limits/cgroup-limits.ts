import { closeSync, mkdirSync, openSync, readFileSync, writeSync } from "node:fs";
import path from "node:path";
import type { ContainerResources } from "../contract/container-spec.ts";

/** Mount point of the cgroup tree. */
const mountPoint = "/sys/fs/cgroup";

/** Length of a CPU quota period in microseconds, the default of the kernel and the kubelet. */
export const cpuPeriodMicroseconds = 100_000;

/** The quota of a CPU limit, as computed by the kubelet. At least one millisecond, the kernel's minimum. */
export function cpuQuota(milli: number): number {
  return Math.max(1000, Math.trunc((milli * cpuPeriodMicroseconds) / 1000));
}

/**
 * The cgroup v2 weight of a CPU request. As in the kubelet, a processor is 1024 shares, and 2 to 262144 shares become weights
 * of 1 to 10000.
 *
 * The weights are in proportion to the requests, so that each container gets at least its request on a machine that is just
 * large enough for the pod. Not so with the conversion of runc since 1.3.2 and crun since 1.23, which kubelets do not use for
 * the cgroups of pods.
 *
 * @see
 * https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/2254-cgroup-v2#phase-1-convert-from-cgroups-v1-settings-to-v2
 */
export function cpuWeight(milli: number): number {
  const shares = Math.min(262_144, Math.max(2, Math.trunc((milli * 1024) / 1000)));
  return 1 + Math.trunc(((shares - 2) * 9999) / 262_142);
}

/** A cgroup's files and their content. Without a request: the minimum weight. Without a limit: `max`. */
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

/** As in runc, limits both the used pages and those that a mapping reserves. */
export function hugePageFiles({
  hugePages = [],
}: ContainerResources): Readonly<Record<string, string>> {
  const files = hugePages.flatMap(({ pageBytes, bytes }) => {
    const size = `hugetlb.${pageSizeName(pageBytes)}`;
    return [`${size}.max`, `${size}.rsvd.max`].map((name) => [name, String(bytes)]);
  });
  return Object.fromEntries(files);
}

/** The kernel's name of a page size, in the largest unit that makes it 1 or more. */
function pageSizeName(pageBytes: number): string {
  const units = ["B", "KB", "MB", "GB"];
  const power = Math.min(units.length - 1, Math.floor(Math.log2(pageBytes) / 10));
  return `${pageBytes / 1024 ** power}${units[power]}`;
}

/**
 * Sets the limits of an existing cgroup.
 *
 * @param cgroup path relative to the root of the tree
 * @throws system errors, for example `ENOENT` if the cgroup is gone
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
 * Creates a cgroup whose limits can be set. Does nothing if it exists.
 *
 * @throws system errors
 */
export function makeCgroup(cgroup: string, root: string = mountPoint): void {
  mkdirSync(`${root}${cgroup}`, { recursive: true });
  // From the root down, because a controller is only available where the parent cgroup enables it.
  const above = [];
  for (let one = path.dirname(cgroup); one !== "/"; one = path.dirname(one)) above.unshift(one);
  for (const one of above)
    for (const controller of ["cpu", "memory", "pids", "hugetlb"]) {
      try {
        write(`${root}${one}/cgroup.subtree_control`, `+${controller}`);
      } catch {
        // If a controller is missing, setting its limit reports that.
      }
    }
}

/** Present memory usage of a cgroup and its descendants, bytes. Undefined if it cannot be read. */
export function memoryUsage(cgroup: string, root: string = mountPoint): number | undefined {
  try {
    return Number(readFileSync(`${root}${cgroup}/memory.current`, "utf8"));
  } catch {
    return undefined;
  }
}

/** A single write that never creates a file, because the kernel processes each write as a unit. */
function write(file: string, text: string): void {
  const descriptor = openSync(file, "r+");
  try {
    writeSync(descriptor, text);
  } finally {
    closeSync(descriptor);
  }
}

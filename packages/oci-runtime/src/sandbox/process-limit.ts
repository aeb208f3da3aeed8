import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";

/** The part of the machine's processes and threads that a pod may have. */
const podPart = 0.8;

/**
 * How many processes and threads a pod may have: four fifths of what the kernel takes of all, so that the agent can still start
 * programs, and end the pod, when a container forks without end.
 *
 * @param kernelSettings @default "/proc/sys/kernel"
 */
export function processLimit(kernelSettings = "/proc/sys/kernel"): number {
  const [threads = 0, ids = 0] = ["threads-max", "pid_max"].map((name) =>
    Number(readFileSync(path.join(kernelSettings, name), "utf8")),
  );
  return Math.floor(Math.min(threads, ids) * podPart);
}

/**
 * Sets the limit of a cgroup. There is none to set before a container of the pod has been created, with which the controllers
 * are switched on.
 *
 * @param cgroup seen from the root of the tree
 * @param root @default "/sys/fs/cgroup"
 * @returns false where the cgroup has no controller of processes
 */
export function limitProcesses(cgroup: string, limit: number, root = "/sys/fs/cgroup"): boolean {
  try {
    writeFileSync(`${root}${cgroup}/pids.max`, String(limit), { flag: "r+" });
    return true;
  } catch {
    return false;
  }
}

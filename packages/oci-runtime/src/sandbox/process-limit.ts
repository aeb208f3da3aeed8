import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";

/** A pod's share of the machine's processes and threads. */
const podPart = 0.8;

/**
 * The process and thread limit of a pod: four fifths of the kernel's limit. If a container forks without end, the agent can
 * still start programs and end the pod.
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
 * Sets a cgroup's process limit. The limit does not exist before the pod's first container has been created, because that
 * enables the controllers.
 *
 * @param cgroup path relative to the root of the tree
 * @param root @default "/sys/fs/cgroup"
 * @returns false if the cgroup has no process controller
 */
export function limitProcesses(cgroup: string, limit: number, root = "/sys/fs/cgroup"): boolean {
  try {
    writeFileSync(`${root}${cgroup}/pids.max`, String(limit), { flag: "r+" });
    return true;
  } catch {
    return false;
  }
}

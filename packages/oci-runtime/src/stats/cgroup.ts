import { readFile } from "node:fs/promises";
import type { ContainerStats } from "../contract/container-runtime.ts";

const root = "/sys/fs/cgroup";

/**
 * What a cgroup v2 uses.
 * @see https://docs.kernel.org/admin-guide/cgroup-v2.html
 */
export async function readCgroupStats(cgroup: string): Promise<ContainerStats> {
  const [cpu, current, memory] = await Promise.all(
    ["cpu.stat", "memory.current", "memory.stat"].map((name) =>
      readFile(`${root}${cgroup}/${name}`, "utf8").catch(() => ""),
    ),
  );
  const usage = Number(current?.trim() || 0);
  return {
    cpuUsageNanoseconds: flatKey(cpu, "usage_usec") * 1000,
    memoryUsageBytes: usage,
    memoryWorkingSetBytes: Math.max(0, usage - flatKey(memory, "inactive_file")),
  };
}

/** Whether the kernel has killed a process of the cgroup for lack of memory. */
export async function wasOomKilled(cgroup: string): Promise<boolean> {
  const events = await readFile(`${root}${cgroup}/memory.events`, "utf8").catch(() => "");
  return flatKey(events, "oom_kill") > 0;
}

/** A value of the kernel's `key value` lines; 0 if it is not there. */
export function flatKey(text: string | undefined, key: string): number {
  const line = text?.split("\n").find((candidate) => candidate.startsWith(`${key} `));
  return Number(line?.slice(key.length + 1) ?? 0);
}

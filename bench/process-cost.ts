import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";

/** The cost of a run. */
export interface Cost {
  readonly wallMs: number;
  /** CPU time of all its processes, including the kernel's part. */
  readonly cpuMs: number;
  /** Peak resident memory of all its processes together. Shared pages count for each process. */
  readonly peakMiB: number;
}

const pageBytes = 4096;
const tickMs = 10;
const sampleMs = 20;

/**
 * Runs a command, and measures it with all processes that it starts.
 *
 * @param daemon a process that works for the command, which is measured with its children
 * @throws if the command fails
 */
export async function measured(command: readonly string[], daemon?: number): Promise<Cost> {
  const daemonCpu = daemon === undefined ? 0 : cpuMs(daemon);
  const facts = ["-f", "time: %U %S %M"];
  const start = performance.now();
  const child = spawn("/usr/bin/time", [...facts, ...command], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  let text = "";
  child.stderr.setEncoding("utf8").on("data", (piece: string) => (text += piece));
  const roots = [child.pid, daemon].filter((pid) => pid !== undefined);
  let peakMiB = 0;
  // The kernel only records the peak of each process, not of several together. So this samples them.
  const sampler = setInterval(() => {
    peakMiB = Math.max(peakMiB, residentMiB(roots));
  }, sampleMs);
  const closed = once(child, "close") as Promise<[number | null]>;
  try {
    await once(child, "exit");
    const wallMs = performance.now() - start;
    const [code] = await closed;
    if (code !== 0) throw new Error(`${command.join(" ")}: exit code ${code}: ${text}`);
    const [user = 0, system = 0, largest = 0] = (/time: (.*)/.exec(text)?.[1] ?? "")
      .split(" ")
      .map(Number);
    const own = (user + system) * 1000;
    return {
      wallMs,
      cpuMs: own + (daemon === undefined ? 0 : cpuMs(daemon) - daemonCpu),
      peakMiB: Math.max(peakMiB, largest / 1024),
    };
  } finally {
    clearInterval(sampler);
  }
}

/** CPU time of a process and its ended children. */
function cpuMs(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) * tickMs;
}

/** Resident memory of the processes and their descendants. Ended ones count as 0. */
function residentMiB(pids: readonly number[]): number {
  let sum = 0;
  for (const pid of pids) {
    try {
      const [, pages = 0] = readFileSync(`/proc/${pid}/statm`, "latin1").split(" ").map(Number);
      sum += (pages * pageBytes) / 1024 ** 2;
      for (const thread of readdirSync(`/proc/${pid}/task`)) {
        const children = readFileSync(`/proc/${pid}/task/${thread}/children`, "latin1").trim();
        if (children !== "") sum += residentMiB(children.split(" ").map(Number));
      }
    } catch {
      // The process has ended.
    }
  }
  return sum;
}

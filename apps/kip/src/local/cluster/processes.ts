import { readdirSync, readFileSync } from "node:fs";
import { CodedError, systemClock } from "@kip/base";

/** Environment variable that marks every process of one local cluster with its state directory. */
export const markerVariable = "KIP_LOCAL_CLUSTER";

/** The marker of this process, for a child that gets nothing else of its environment. */
export function markerEnvironment(): NodeJS.ProcessEnv {
  const marker = process.env[markerVariable];
  return marker === undefined ? {} : { [markerVariable]: marker };
}

/** PIDs of all living processes that carry the marker of this state directory, our own excepted. */
export function clusterProcesses(stateDir: string): readonly number[] {
  const marker = `${markerVariable}=${stateDir}`;
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .map(Number)
    .filter((pid) => environmentOf(pid).includes(marker) && !isZombie(pid));
}

/** How long the kernel may take to end what was killed, milliseconds. */
const killMs = 10_000;

/**
 * Ends the processes of a cluster: SIGTERM to those that no other of them started, which end the others in their order, and
 * SIGKILL to all that are left after `graceMs`. Resolves when all are gone.
 *
 * @throws {CodedError} `LOCAL_CLUSTER_FAILED` if some cannot be ended
 */
export async function endProcesses(stateDir: string, graceMs: number): Promise<number> {
  const found = clusterProcesses(stateDir);
  for (const pid of found) if (!found.includes(parentOf(pid))) signal(pid, "SIGTERM");
  const end = systemClock.monotonic() + graceMs;
  for (;;) {
    const left = clusterProcesses(stateDir);
    if (left.length === 0) break;
    if (systemClock.monotonic() > end + killMs) {
      throw new CodedError(
        "LOCAL_CLUSTER_FAILED",
        `Cannot end processes ${left.join(", ")} of the local cluster`,
        { remedy: "See what holds them: cat /proc/PID/stack" },
      );
    }
    if (systemClock.monotonic() > end) for (const pid of left) signal(pid, "SIGKILL");
    // They are not our children, so no event tells of their end.
    await systemClock.sleep(50);
  }
  return found.length;
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // It has ended by itself.
  }
}

function parentOf(pid: number): number {
  try {
    return Number(/^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0);
  } catch {
    return 0;
  }
}

function environmentOf(pid: number): readonly string[] {
  try {
    return readFileSync(`/proc/${pid}/environ`, "utf8").split("\0");
  } catch {
    return [];
  }
}

function isZombie(pid: number): boolean {
  try {
    return /^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return true;
  }
}

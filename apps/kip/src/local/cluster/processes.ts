import { endProcesses, listProcesses, readEnvironment, readProcess, systemClock } from "@kip/base";
import { KipError } from "../../errors.ts";

/** Environment variable that marks every process of a local cluster. Its value is the state folder. */
export const markerVariable = "KIP_LOCAL_CLUSTER";

/** How long the kernel may take to end killed processes, milliseconds. */
const killLimitMs = 10_000;

/** The marker of this process, for a child that gets no other environment. */
export function markerEnvironment(): NodeJS.ProcessEnv {
  const marker = process.env[markerVariable];
  return marker === undefined ? {} : { [markerVariable]: marker };
}

/** IDs of all running processes with the marker of this state folder, except our own. */
export async function clusterProcesses(stateDir: string): Promise<readonly number[]> {
  const marker = `${markerVariable}=${stateDir}`;
  const pids = (await listProcesses()).filter((pid) => pid !== process.pid);
  const marked = await Promise.all(
    pids.map(async (pid) => {
      const isMarked = (await readEnvironment(pid)).includes(marker);
      return isMarked && (await readProcess(pid))?.isAlive === true;
    }),
  );
  return pids.filter((_pid, index) => marked[index]);
}

/**
 * Ends the processes of a cluster. Sends SIGTERM to those that were not started by another one; these end the others in their
 * order. After `graceMs`, sends SIGKILL to all that remain. Resolves when all are gone.
 *
 * @returns the number of processes found
 * @throws {KipError} `LOCAL_CLUSTER_FAILED` if some cannot be ended
 */
export async function endCluster(stateDir: string, graceMs: number): Promise<number> {
  const { found, left } = await endProcesses({
    find: async () => await clusterProcesses(stateDir),
    leaders: withoutChildren,
    graceMs,
    killLimitMs,
    clock: systemClock,
  });
  if (left.length === 0) return found.length;
  throw new KipError(
    "LOCAL_CLUSTER_FAILED",
    `Cannot end processes ${left.join(", ")} of the local cluster`,
    { remedy: "See what holds them: cat /proc/PID/stack" },
  );
}

/** The processes whose parent is not one of them. */
async function withoutChildren(pids: readonly number[]): Promise<readonly number[]> {
  const parents = await Promise.all(pids.map(async (pid) => (await readProcess(pid))?.parentPid));
  return pids.filter((_pid, index) => !pids.includes(parents[index] ?? 0));
}

import { endProcesses, listProcesses, readEnvironment, readProcess, systemClock } from "@kip/base";
import { KipError } from "../../errors.ts";

/** Environment variable that marks every process of one local cluster with its state directory. */
export const markerVariable = "KIP_LOCAL_CLUSTER";

/** How long the kernel may take to end what was killed, milliseconds. */
const killLimitMs = 10_000;

/** The marker of this process, for a child that gets nothing else of its environment. */
export function markerEnvironment(): NodeJS.ProcessEnv {
  const marker = process.env[markerVariable];
  return marker === undefined ? {} : { [markerVariable]: marker };
}

/** IDs of all living processes that carry the marker of this state directory, our own excepted. */
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
 * Ends the processes of a cluster: SIGTERM to those that no other of them started, which end the others in their order, and
 * SIGKILL to all that are left after `graceMs`. Resolves when all are gone.
 *
 * @returns how many there were
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

/** Those that no other of them started. */
async function withoutChildren(pids: readonly number[]): Promise<readonly number[]> {
  const parents = await Promise.all(pids.map(async (pid) => (await readProcess(pid))?.parentPid));
  return pids.filter((_pid, index) => !pids.includes(parents[index] ?? 0));
}

import { mkdir } from "node:fs/promises";

/**
 * The cgroup of the processes that watch over containers: beside the pods', so that no controller stands
 * in the way, and outside of the agent's, with which systemd would kill them.
 */
const monitorCgroup = "/sys/fs/cgroup/kip/monitors";
/** Takes the ID of a process to move there. */
export const monitorCgroupProcs = `${monitorCgroup}/cgroup.procs`;

/** Makes the cgroup. @returns whether there is one now; not so without cgroup v2 */
export async function makeMonitorCgroup(): Promise<boolean> {
  return await mkdir(monitorCgroup, { recursive: true }).then(
    () => true,
    () => false,
  );
}

import { mkdir } from "node:fs/promises";

/**
 * The cgroup of the containers' monitors. It is outside the pods' cgroups, so that their controllers do not apply, and outside
 * the agent's, in which systemd would kill them.
 */
const monitorCgroup = "/sys/fs/cgroup/kip/monitors";
/** Writing a process's ID here moves it to this cgroup. */
export const monitorCgroupProcs = `${monitorCgroup}/cgroup.procs`;

/** Creates the cgroup. @returns whether it exists now. It does not without cgroup v2 */
export async function makeMonitorCgroup(): Promise<boolean> {
  return await mkdir(monitorCgroup, { recursive: true }).then(
    () => true,
    () => false,
  );
}

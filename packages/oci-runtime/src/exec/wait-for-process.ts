import { stat } from "node:fs/promises";
import { waitForProcessScript } from "../gen/scripts.gen.ts";

/**
 * A command line that runs a command which starts a process and ends, and that then ends like the process.
 *
 * crun itself, while it waits for the process of an exec, adopts what that leaves running, and waits for that as well. Only a
 * container in a PID namespace of its own has a first process that orphans go to instead.
 *
 * @param pidFile where the command leaves the process's ID
 * @param consoleSocket made for the command, which sends the process's terminal there; absent: it has none
 */
export function waitForProcess(
  pidFile: string,
  command: readonly string[],
  consoleSocket = "",
): readonly string[] {
  const perl = ["/usr/bin/perl", "-e", waitForProcessScript];
  return [...perl, process.arch, pidFile, consoleSocket, ...command];
}

/** Whether a process is in the PID namespace of this program; false if it has ended, or there is none. */
export async function isInOurPidNamespace(pid: number | undefined): Promise<boolean> {
  if (pid === undefined) return false;
  const [ours, its] = await Promise.all(
    ["self", String(pid)].map(async (name) => {
      return await stat(`/proc/${name}/ns/pid`).catch(() => undefined);
    }),
  );
  return ours !== undefined && ours.ino === its?.ino && ours.dev === its.dev;
}

import { stat } from "node:fs/promises";
import { waitForProcessScript } from "../gen/scripts.gen.ts";

/**
 * A command line that runs a command, waits for the process that the command starts, and exits with that process's code.
 *
 * While crun waits for the process of an exec, it adopts the processes that it leaves behind, and waits for them too. Only a
 * container with its own PID namespace has another process that adopts orphans.
 *
 * @param pidFile file to which the command writes the process's ID
 * @param consoleSocket socket to which the command sends the process's terminal. Absent: it has no terminal
 */
export function waitForProcess(
  pidFile: string,
  command: readonly string[],
  consoleSocket = "",
): readonly string[] {
  const perl = ["/usr/bin/perl", "-e", waitForProcessScript];
  return [...perl, process.arch, pidFile, consoleSocket, ...command];
}

/** Whether a process is in the PID namespace of this program. False if it has ended or the ID is undefined. */
export async function isInOurPidNamespace(pid: number | undefined): Promise<boolean> {
  if (pid === undefined) return false;
  const [ours, its] = await Promise.all(
    ["self", String(pid)].map(async (name) => {
      return await stat(`/proc/${name}/ns/pid`).catch(() => undefined);
    }),
  );
  return ours !== undefined && ours.ino === its?.ino && ours.dev === its.dev;
}

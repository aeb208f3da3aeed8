import { readFile } from "node:fs/promises";
import { listProcesses } from "@kip/base";

/**
 * Kills a process started by `crun exec` and all that belongs to its session: crun makes a new
 * session for each, and what the process started stays in it. Does nothing if it is gone.
 */
export async function killSession(pid: number): Promise<void> {
  const session = await sessionOf(pid);
  if (session === undefined) return;
  for (const other of await listProcesses())
    if (other === pid || (session > 0 && (await sessionOf(other)) === session)) kill(other);
}

/** Sends a signal to a process that may be gone by now. */
function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It ended in the meantime, which is what was wanted.
  }
}

/** The session of a process, as this PID namespace numbers it; 0 if its leader is outside. */
async function sessionOf(pid: number): Promise<number | undefined> {
  const line = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => undefined);
  // Fields after the name, which is in brackets: state, parent, group, session (proc(5)).
  const session = line?.slice(line.lastIndexOf(")") + 2).split(" ")[3];
  return session === undefined ? undefined : Number(session);
}

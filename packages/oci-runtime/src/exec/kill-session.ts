import { readFile } from "node:fs/promises";
import { listProcesses } from "@kip/base";

/**
 * Kills a process started by `crun exec` and its whole session. crun starts a new session for each exec, and its descendants
 * stay in it. Does nothing if it is gone.
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
    // It has already ended.
  }
}

/** The session of a process in this PID namespace. 0 if its leader is outside. */
async function sessionOf(pid: number): Promise<number | undefined> {
  const line = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => undefined);
  // Fields after the name, which is in parentheses: state, parent, group, session (proc(5)).
  const session = line?.slice(line.lastIndexOf(")") + 2).split(" ")[3];
  return session === undefined ? undefined : Number(session);
}

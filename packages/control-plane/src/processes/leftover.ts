import { rm } from "node:fs/promises";
import { type Clock, isSystemError } from "@kip/base";
import { readIfPresent } from "../files.ts";
import { isRunning, parseIdentity } from "./process-identity.ts";

/** Ends a process that an earlier start left behind and recorded in `path`, and forgets it. */
export async function endLeftover(path: string, clock: Clock): Promise<void> {
  const left = parseIdentity((await readIfPresent(path)) ?? "");
  if (left && isRunning(left)) {
    kill(left.pid);
    // Another process's child: the kernel reports its end to its parent only, so look again.
    while (isRunning(left)) await clock.sleep(20);
  }
  await rm(path, { force: true });
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if (!isSystemError(error, "ESRCH")) throw error; // it has just ended
  }
}

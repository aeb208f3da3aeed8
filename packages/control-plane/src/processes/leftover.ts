import { rm } from "node:fs/promises";
import { isProcessRunning, signalProcess, type Clock } from "@kip/base";
import { readIfPresent } from "../files.ts";
import { parseIdentity } from "./process-identity.ts";

/** Ends a process that an earlier start left behind and recorded in `path`, and forgets it. */
export async function endLeftover(path: string, clock: Clock): Promise<void> {
  const left = parseIdentity((await readIfPresent(path)) ?? "");
  if (left && isProcessRunning(left)) {
    signalProcess(left.pid, "SIGKILL");
    // Another process's child: the kernel reports its end to its parent only, so look again.
    while (isProcessRunning(left)) await clock.sleep(20);
  }
  await rm(path, { force: true });
}

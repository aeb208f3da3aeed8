import { rm } from "node:fs/promises";
import type { Clock } from "@kip/base";
import { readIfPresent } from "../files.ts";
import { isRunning, parseIdentity } from "./process-identity.ts";

/** Ends a process that an earlier start left behind and recorded in `path`, and forgets it. */
export async function endLeftover(path: string, clock: Clock): Promise<void> {
  const left = parseIdentity((await readIfPresent(path)) ?? "");
  if (left && isRunning(left)) {
    process.kill(left.pid, "SIGKILL");
    // Another process's child: the kernel tells nobody but its parent of the end, so look again.
    while (isRunning(left)) await clock.sleep(20);
  }
  await rm(path, { force: true });
}

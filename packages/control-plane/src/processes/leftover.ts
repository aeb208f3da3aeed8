import { rm } from "node:fs/promises";
import { decode, type Clock } from "@kip/base";
import { readIfPresent } from "../files.ts";
import { isRunning, type ProcessIdentity } from "./process-identity.ts";

const identity = decode.object({ pid: decode.integer, startTicks: decode.string });

/** Ends a process that an earlier start left behind and recorded in `path`, and forgets it. */
export async function endLeftover(path: string, clock: Clock): Promise<void> {
  const left = parse(await readIfPresent(path));
  if (left && isRunning(left)) {
    process.kill(left.pid, "SIGKILL");
    // Another process's child: the kernel tells nobody but its parent of the end, so look again.
    while (isRunning(left)) await clock.sleep(20);
  }
  await rm(path, { force: true });
}

function parse(text: string | undefined): ProcessIdentity | undefined {
  if (text === undefined) return undefined;
  try {
    return identity(JSON.parse(text), "");
  } catch {
    return undefined; // cut off by a crash while being written: there was no process yet
  }
}

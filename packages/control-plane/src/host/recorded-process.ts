import { rm } from "node:fs/promises";
import {
  decode,
  isProcessRunning,
  signalProcess,
  type Clock,
  type ProcessIdentity,
} from "@kip/base";
import { readIfPresent } from "./files.ts";

const decodeIdentity = decode.object({ pid: decode.integer, startTicks: decode.string });

/** The process that a file of ours names in JSON; undefined if it names none, or was cut off by a crash. */
export function parseIdentity(text: string): ProcessIdentity | undefined {
  try {
    return decodeIdentity(JSON.parse(text), "");
  } catch {
    return undefined;
  }
}

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

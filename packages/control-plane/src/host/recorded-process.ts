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

/** The process identity in a JSON text. Undefined if there is none, or if a crash cut the text off. */
export function parseIdentity(text: string): ProcessIdentity | undefined {
  try {
    return decodeIdentity(JSON.parse(text), "");
  } catch {
    return undefined;
  }
}

/** Ends a process that an earlier start left behind and recorded in `path`, and removes the record. */
export async function endLeftover(path: string, clock: Clock): Promise<void> {
  const left = parseIdentity((await readIfPresent(path)) ?? "");
  if (left && isProcessRunning(left)) {
    signalProcess(left.pid, "SIGKILL");
    // Not a child of this process, and the kernel only reports its end to its parent. So check repeatedly.
    while (isProcessRunning(left)) await clock.sleep(20);
  }
  await rm(path, { force: true });
}

import { readFileSync } from "node:fs";
import { decode } from "@kip/base";

/** A process, distinguished from a later one with the same ID. */
export interface ProcessIdentity {
  readonly pid: number;
  /** Clock ticks from boot to its start; field 22 of `/proc/<pid>/stat`. */
  readonly startTicks: string;
}

/** The process with this ID; undefined if there is none, or it has ended and waits for its parent. */
export function identify(pid: number): ProcessIdentity | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name, in parentheses, may hold anything; the fields are counted from behind it.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const [state, startTicks] = [fields[0], fields[19]];
    return startTicks === undefined || state === "Z" ? undefined : { pid, startTicks };
  } catch {
    return undefined; // no such process
  }
}

const decodeIdentity = decode.object({ pid: decode.integer, startTicks: decode.string });

/** The process that a file of ours names in JSON; undefined if it names none, or was cut off by a crash. */
export function parseIdentity(text: string): ProcessIdentity | undefined {
  try {
    return decodeIdentity(JSON.parse(text), "");
  } catch {
    return undefined;
  }
}

/** Whether this very process still runs. */
export function isRunning(process: ProcessIdentity): boolean {
  return identify(process.pid)?.startTicks === process.startTicks;
}

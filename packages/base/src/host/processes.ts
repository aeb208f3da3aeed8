import { readFileSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { isSystemError } from "../coded-error.ts";

/** The identity of a process, which differs from that of a later process with the same ID. */
export interface ProcessIdentity {
  readonly pid: number;
  /** Clock ticks between the start of the computer and of the process: field 22 of `/proc/<pid>/stat`. */
  readonly startTicks: string;
}

/** What the kernel reports about a process. */
export interface ProcessStatus {
  /** The process that started it, or that adopted it. */
  readonly parentPid: number;
  /** Its user IDs: real, effective, saved and file system. */
  readonly uids: readonly number[];
  /** False if it has ended but its parent has not collected it. */
  readonly isAlive: boolean;
}

/**
 * The process with this ID. Undefined if there is none, or if it has ended but was not collected.
 *
 * @see proc_pid_stat(5)
 */
export function identifyProcess(pid: number): ProcessIdentity | undefined {
  const stat = readNow(`/proc/${pid}/stat`);
  // The name, in parentheses, may contain anything, so the fields are counted from after it.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const [state = "", threads, startTicks] = [fields[0], fields[17], fields[19]];
  // The first thread may have ended while others run.
  const hasEnded = "ZX".includes(state) && Number(threads) <= 1;
  return startTicks === undefined || hasEnded ? undefined : { pid, startTicks };
}

/** The current process. @throws {TypeError} where there is no /proc */
export function thisProcess(): ProcessIdentity {
  const identity = identifyProcess(process.pid);
  if (!identity) throw new TypeError("Cannot identify this process: /proc is not mounted");
  return identity;
}

/** Whether this same process is still running. */
export function isProcessRunning({ pid, startTicks }: ProcessIdentity): boolean {
  return identifyProcess(pid)?.startTicks === startTicks;
}

/** IDs of all processes, including those that have ended but were not collected. */
export async function listProcesses(): Promise<readonly number[]> {
  return (await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(Number);
}

/**
 * What the kernel reports about a process. Undefined if it is gone.
 *
 * @see proc_pid_status(5)
 */
export async function readProcess(pid: number): Promise<ProcessStatus | undefined> {
  const text = await readFile(`/proc/${pid}/status`, "utf8").catch(() => undefined); // gone
  if (text === undefined) return undefined;
  const field = (pattern: RegExp): string | undefined => pattern.exec(text)?.[1];
  const uids =
    field(/^Uid:\s+(.*)$/m)
      ?.split(/\s+/)
      .map(Number) ?? [];
  const hasEnded = /^State:\s+[ZX]/m.test(text);
  const threads = Number(field(/^Threads:\s+(\d+)$/m) ?? 0);
  const parentPid = Number(field(/^PPid:\s+(\d+)$/m) ?? 0);
  return { parentPid, uids, isAlive: !hasEnded || threads > 1 };
}

/** The arguments of a process, starting with its program. Empty if it is gone. A process can change its own. */
export async function readArguments(pid: number): Promise<readonly string[]> {
  return await readList(`/proc/${pid}/cmdline`);
}

/** The environment that a process was started with, as `NAME=value`. Empty if it is gone or belongs to another user. */
export async function readEnvironment(pid: number): Promise<readonly string[]> {
  return await readList(`/proc/${pid}/environ`);
}

/** Sends a signal. Does nothing if the process is gone. */
export function signalProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (!isSystemError(error, "ESRCH")) throw error;
  }
}

async function readList(file: string): Promise<readonly string[]> {
  const text = await readFile(file, "utf8").catch(() => ""); // gone
  return text.split("\0").filter((entry) => entry !== "");
}

function readNow(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return ""; // gone
  }
}

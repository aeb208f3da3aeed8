import { readdir, readFile, stat } from "node:fs/promises";
import { hasCode } from "@kip/base";
import { CloudError } from "@kip/cloud";
import { killControlGroup, readControlGroup, removeControlGroup } from "./control-group.ts";
import { SharedRun } from "./shared-run.ts";

/**
 * What tells the processes of one purpose from all others. A process belongs to it by any of these. A program that
 * was broken into can change its arguments, but neither its user nor its control group, and its children have both.
 */
export interface ProcessGroup {
  /** A path in a folder of ours that only they have as an argument. With `uid`, it counts for processes of root only. */
  readonly argument: string;
  /** The user that they become, above 65535, which nothing else on this computer runs as. */
  readonly uid?: number | undefined;
  /** Absolute path of their control group. */
  readonly controlGroup?: string | undefined;
  /** One of them. */
  readonly process?: ProcessIdentity | undefined;
}

/** A process, told from a later one of the same ID by when it began. */
export interface ProcessIdentity {
  readonly pid: number;
  /** As {@link processStartTime} gives it. */
  readonly since: string;
}

/** How often those are looked for that were forked while others were killed, milliseconds. */
const passMs = 50;
/** How long processes that were killed may take to be gone, milliseconds. */
const killLimitMs = 5000;

/** Whether a process has exactly this argument. */
export async function hasArgument(pid: number, argument: string): Promise<boolean> {
  return (await readArguments(pid)).includes(argument);
}

/** IDs of all processes of a group, or that have exactly this argument. */
export async function findProcesses(group: string | ProcessGroup): Promise<readonly number[]> {
  const { argument, uid, controlGroup, process: known } = asGroup(group);
  // A control group is read first: who leaves it while we look can only have ended.
  const pids = new Set(controlGroup === undefined ? [] : await readControlGroup(controlGroup));
  if (known && (await processStartTime(known.pid)) === known.since) pids.add(known.pid);
  for (const each of await processTable.run()) {
    const isOfUser = uid !== undefined && each.uids.includes(uid);
    const mayClaim = uid === undefined || each.uids.every((id) => id === 0);
    if (isOfUser || (mayClaim && each.args.includes(argument))) pids.add(each.pid);
  }
  pids.delete(process.pid);
  const alive = await Promise.all([...pids].map(isAlive));
  return [...pids].filter((_pid, index) => alive[index]);
}

/** IDs of all processes that run as one of the users. */
export async function usersInUse(): Promise<ReadonlySet<number>> {
  return new Set((await processTable.run()).flatMap(({ uids }) => uids));
}

/** IDs of all processes whose network namespace is the given file's. */
export async function findNamespaceMembers(namespaceFile: string): Promise<readonly number[]> {
  const wanted = (await stat(namespaceFile)).ino;
  const pids = await listProcesses();
  const inodes = await Promise.all(
    pids.map((pid) =>
      stat(`/proc/${pid}/ns/net`).then(
        (found) => found.ino,
        () => undefined, // ended meanwhile, or a kernel thread
      ),
    ),
  );
  return pids.filter((pid, index) => inodes[index] === wanted && pid !== process.pid);
}

/** Sends a signal; does nothing if the process is gone. */
export function signalProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (!hasCode(error, "ESRCH")) throw error;
  }
}

/**
 * Ends every process of a group: SIGTERM, then SIGKILL after `graceMs`, to those that they have forked meanwhile too.
 * Removes its control group. Returns when none is left.
 *
 * @throws {CloudError} `CLOUD_UNAVAILABLE` if some are still there 5 s after they were killed
 */
export async function endProcesses(group: string | ProcessGroup, graceMs: number): Promise<void> {
  const whole = asGroup(group);
  const { controlGroup } = whole;
  let members = await findProcesses(whole);
  for (const pid of members) signalProcess(pid, "SIGTERM");
  await waitUntilGone(members, graceMs);
  const until = performance.now() + killLimitMs;
  for (;;) {
    if (controlGroup !== undefined) await killControlGroup(controlGroup);
    members = await findProcesses(whole);
    const isRemoved = controlGroup === undefined || (await removeControlGroup(controlGroup));
    if (members.length === 0 && isRemoved) return;
    if (performance.now() > until) throw notEnded(members);
    for (const pid of members) signalProcess(pid, "SIGKILL");
    // Without members it is the control group that the kernel has not emptied yet.
    if (members.length === 0) await pause();
    else await waitUntilGone(members, passMs);
  }
}

function notEnded(pids: readonly number[]): CloudError {
  return new CloudError(
    "CLOUD_UNAVAILABLE",
    `Cannot end processes ${pids.join(", ")}: they were killed and are still there`,
    { remedy: "They may wait for a disk; it is tried again", facts: { pids } },
  );
}

function asGroup(group: string | ProcessGroup): ProcessGroup {
  const whole = typeof group === "string" ? { argument: group } : group;
  // Accounts have lower IDs: a mistake here must not end what is not ours.
  if (whole.uid !== undefined && whole.uid <= 65_535)
    throw new RangeError(`User ${whole.uid} may be an account`);
  return whole;
}

/**
 * Resolves once the processes are gone, with true; false if some are not after `limitMs`.
 * The kernel offers Node no event for the end of a process that is not a child, so this looks every 5 ms; callers use it
 * only for processes that were asked to end.
 */
async function waitUntilGone(pids: readonly number[], limitMs: number): Promise<boolean> {
  const until = performance.now() + limitMs;
  for (;;) {
    if (!(await Promise.all(pids.map(isAlive))).includes(true)) return true;
    if (performance.now() > until) return false;
    await pause();
  }
}

async function pause(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 5));
}

/**
 * Memory of a process that is in RAM and its own, bytes; 0 if it is gone. What it sees of files does not count: a
 * copy of a template that writes there takes more.
 */
export async function residentBytes(pid: number): Promise<number> {
  try {
    const fields = (await readFile(`/proc/${pid}/statm`, "utf8")).split(" ").map(Number);
    const [, resident = 0, ofFiles = 0] = fields;
    return (resident - ofFiles) * 4096;
  } catch {
    return 0; // gone
  }
}

/** When a process began, in the kernel's ticks since the start of the computer; undefined if it is gone. */
export async function processStartTime(pid: number): Promise<string | undefined> {
  try {
    // The second field, the name in parentheses, may hold anything; the 22nd is what is looked for.
    const text = await readFile(`/proc/${pid}/stat`, "utf8");
    return text.slice(text.lastIndexOf(")") + 2).split(" ")[19];
  } catch {
    return undefined;
  }
}

interface ProcessEntry {
  readonly pid: number;
  /** Real, effective, saved and of files. */
  readonly uids: readonly number[];
  /** Empty unless it is root's or a user's of ours. */
  readonly args: readonly string[];
}

/** One look at all processes for all who ask at the same time: many machines end together. */
const processTable = new SharedRun(async (): Promise<readonly ProcessEntry[]> => {
  const entries = await Promise.all((await listProcesses()).map(readEntry));
  return entries.filter((entry) => entry !== undefined);
});

async function readEntry(pid: number): Promise<ProcessEntry | undefined> {
  const status = await readStatus(pid);
  return status?.isAlive ? { pid, uids: status.uids, args: await readArguments(pid) } : undefined;
}

async function isAlive(pid: number): Promise<boolean> {
  return (await readStatus(pid))?.isAlive ?? false;
}

async function readStatus(
  pid: number,
): Promise<{ readonly uids: readonly number[]; readonly isAlive: boolean } | undefined> {
  try {
    const text = await readFile(`/proc/${pid}/status`, "utf8");
    const uids = /^Uid:\s+(.*)$/m.exec(text)?.[1]?.split(/\s+/).map(Number) ?? [];
    const isDead = /^State:\s+[ZX]/m.test(text);
    // The first thread may have ended and the others run.
    const threads = Number(/^Threads:\s+(\d+)$/m.exec(text)?.[1] ?? 0);
    return { uids, isAlive: !isDead || threads > 1 };
  } catch {
    return undefined; // gone
  }
}

async function listProcesses(): Promise<readonly number[]> {
  return (await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(Number);
}

async function readArguments(pid: number): Promise<readonly string[]> {
  try {
    return (await readFile(`/proc/${pid}/cmdline`, "utf8")).split("\0");
  } catch {
    return []; // gone
  }
}

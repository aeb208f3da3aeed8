import { readFile, stat } from "node:fs/promises";
import {
  endProcesses,
  identifyProcess,
  isProcessRunning,
  listProcesses,
  readArguments,
  readProcess,
  systemClock,
  type ProcessIdentity,
} from "@kip/base";
import { CloudError } from "@kip/cloud";
import { killControlGroup, readControlGroup, removeControlGroup } from "./control-group.ts";
import { SharedRun } from "./shared-run.ts";

/**
 * Identifies processes of one purpose. A process that matches any of these fields belongs to the group. A program that was
 * broken into can change its arguments, but not its user or its control group, which its children inherit.
 */
export interface ProcessGroup {
  /**
   * A path in one of Kip's folders that only these processes have as an argument. With `uid`, it only counts for processes of
   * root.
   */
  readonly argument: string;
  /** The user that they run as, above 65535. Nothing else on this computer uses it. */
  readonly uid?: number | undefined;
  /** Absolute path of their control group. */
  readonly controlGroup?: string | undefined;
  /** One of the processes. */
  readonly process?: ProcessIdentity | undefined;
}

/** How long killed processes may take to end, milliseconds. */
const killLimitMs = 5000;

/** Whether a process has exactly this argument. */
export async function hasArgument(pid: number, argument: string): Promise<boolean> {
  return (await readArguments(pid)).includes(argument);
}

/** IDs of all processes of a group, or of all that have exactly this argument. */
export async function findProcesses(group: string | ProcessGroup): Promise<readonly number[]> {
  const { argument, uid, controlGroup, process: known } = asGroup(group);
  // The control group is read first. A process that leaves it in the meantime can only have ended.
  const pids = new Set(controlGroup === undefined ? [] : await readControlGroup(controlGroup));
  if (known && isProcessRunning(known)) pids.add(known.pid);
  for (const each of await processTable.run()) {
    const isOfUser = uid !== undefined && each.uids.includes(uid);
    const mayClaim = uid === undefined || each.uids.every((id) => id === 0);
    if (isOfUser || (mayClaim && each.args.includes(argument))) pids.add(each.pid);
  }
  pids.delete(process.pid);
  return [...pids].filter((pid) => identifyProcess(pid) !== undefined);
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
        () => undefined, // ended in the meantime, or a kernel thread
      ),
    ),
  );
  return pids.filter((pid, index) => inodes[index] === wanted && pid !== process.pid);
}

/**
 * Ends every process of a group: SIGTERM, then SIGKILL after `graceMs`, also to processes that they forked in the meantime.
 * Removes its control group. Returns when none remain.
 *
 * @throws {CloudError} `CLOUD_UNAVAILABLE` if some still exist 5 s after they were killed
 */
export async function endProcessGroup(
  group: string | ProcessGroup,
  graceMs: number,
): Promise<void> {
  const whole = asGroup(group);
  const { controlGroup } = whole;
  const { left, areAllGone } = await endProcesses({
    find: async () => await findProcesses(whole),
    graceMs,
    killLimitMs,
    killHidden: async () => {
      if (controlGroup === undefined) return true;
      await killControlGroup(controlGroup);
      return await removeControlGroup(controlGroup);
    },
    clock: systemClock,
  });
  if (!areAllGone) throw notEnded(left);
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
  // Accounts have lower IDs. A mistake here must not end other programs.
  if (whole.uid !== undefined && whole.uid <= 65_535)
    throw new RangeError(`User ${whole.uid} may be an account`);
  return whole;
}

/**
 * A process's own memory in RAM, bytes. 0 if it is gone. Mapped files do not count. When a copy of a template writes to its
 * memory, that becomes its own.
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

interface ProcessEntry {
  readonly pid: number;
  /** Real, effective, saved and file system user. */
  readonly uids: readonly number[];
  /** Empty unless the process belongs to root or to one of Kip's users. */
  readonly args: readonly string[];
}

/** Callers at the same time share one listing of all processes, because many machines may end together. */
const processTable = new SharedRun(async (): Promise<readonly ProcessEntry[]> => {
  const entries = await Promise.all((await listProcesses()).map(readEntry));
  return entries.filter((entry) => entry !== undefined);
});

async function readEntry(pid: number): Promise<ProcessEntry | undefined> {
  const status = await readProcess(pid);
  return status?.isAlive ? { pid, uids: status.uids, args: await readArguments(pid) } : undefined;
}

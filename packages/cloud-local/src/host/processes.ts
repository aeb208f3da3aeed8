import { readdir, readFile, stat } from "node:fs/promises";
import { hasCode } from "@kip/base";

/**
 * Processes are told apart by an argument that only they have (a path in our state folder), never by
 * a stored process ID alone: IDs are used again.
 */
export async function hasArgument(pid: number, argument: string): Promise<boolean> {
  return (await readArguments(pid)).includes(argument);
}

/** IDs of all processes that have exactly this argument. */
export async function findProcesses(argument: string): Promise<readonly number[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(Number);
  const matches = await Promise.all(pids.map((pid) => hasArgument(pid, argument)));
  return pids.filter((pid, index) => matches[index] === true && pid !== process.pid);
}

/** IDs of all processes whose network namespace is the given file's. */
export async function findNamespaceMembers(namespaceFile: string): Promise<readonly number[]> {
  const wanted = (await stat(namespaceFile)).ino;
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(Number);
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

/** Sends a signal; a process that is gone is no failure. */
export function signalProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (!hasCode(error, "ESRCH")) throw error;
  }
}

/**
 * Resolves once no process has the argument any more; false if some still do after `limitMs`.
 * The kernel offers Node no event for the end of a process that is not a child, so this looks every
 * 5 ms; callers use it only for processes that were told to end or whose socket has closed.
 */
export async function waitUntilGone(
  pids: readonly number[],
  argument: string,
  limitMs: number,
): Promise<boolean> {
  const until = performance.now() + limitMs;
  for (;;) {
    const alive = await Promise.all(pids.map((pid) => hasArgument(pid, argument)));
    if (!alive.includes(true)) return true;
    if (performance.now() > until) return false;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Ends every process that has the argument: SIGTERM, then SIGKILL after `graceMs`. */
export async function endProcesses(argument: string, graceMs: number): Promise<void> {
  const pids = await findProcesses(argument);
  for (const pid of pids) signalProcess(pid, "SIGTERM");
  if (await waitUntilGone(pids, argument, graceMs)) return;
  for (const pid of pids) if (await hasArgument(pid, argument)) signalProcess(pid, "SIGKILL");
  await waitUntilGone(pids, argument, 5000);
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

async function readArguments(pid: number): Promise<readonly string[]> {
  try {
    return (await readFile(`/proc/${pid}/cmdline`, "utf8")).split("\0");
  } catch {
    return []; // gone
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

import { mkdir, readFile, rmdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { isSystemError } from "@kip/base";

/**
 * The path of a control group with this name, below that of this process, so that limits of kip also apply to its machines.
 * Only control groups of version 2 are used, alone or beside version 1. With them, one command kills a whole group, including
 * processes that it forks in the meantime.
 *
 * @returns undefined if this computer has none
 * @see https://docs.kernel.org/admin-guide/cgroup-v2.html
 */
export async function controlGroupPath(name: string): Promise<string | undefined> {
  const [mounts, own] = await Promise.all([
    readFile("/proc/self/mountinfo", "utf8"),
    readFile("/proc/self/cgroup", "utf8").catch(() => ""),
  ]);
  const ownPath = /^0::(\/.*)$/m.exec(own)?.[1];
  // "35 24 0:30 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw"
  const mount = mounts.split("\n").find((line) => / - cgroup2 /.test(line));
  const [, , , root = "", mountPoint = ""] = mount?.split(" ") ?? [];
  if (mount === undefined || ownPath === undefined) return undefined;
  const inside = path.posix.relative(root, ownPath);
  return inside.startsWith("..") ? undefined : path.join(mountPoint, inside, name);
}

/** Creates a control group. False if that is not possible here. */
export async function makeControlGroup(folder: string): Promise<boolean> {
  try {
    await mkdir(folder, { mode: 0o755 });
  } catch (error) {
    return isSystemError(error, "EEXIST");
  }
  return true;
}

/**
 * The start of a command line: a shell that enters a control group and then executes the program that follows. The program only
 * gets PATH from this process's environment. It serves guests, and one that breaks into it must not find credentials there.
 *
 * @param folder of the control group; undefined to stay in that of this process
 */
export function confined(folder: string | undefined): readonly string[] {
  const enter = '[ -z "$1" ] || echo 0 2>/dev/null >"$1/cgroup.procs"';
  return ["sh", "-c", `${enter}; shift; exec env -i "PATH=$PATH" "$@"`, "sh", folder ?? ""];
}

/** IDs of the processes in a control group. Empty if it does not exist. */
export async function readControlGroup(folder: string): Promise<readonly number[]> {
  const text = await readFile(path.join(folder, "cgroup.procs"), "utf8").catch(() => "");
  return text.split("\n").filter(Boolean).map(Number);
}

/** Kills all processes in a control group at once, if the kernel supports it (Linux 5.14). */
export async function killControlGroup(folder: string): Promise<void> {
  await writeFile(path.join(folder, "cgroup.kill"), "1", { flag: "r+" }).catch(() => {}); // it does not exist
}

/** Removes a control group. False if it still has processes. Does nothing if it does not exist. */
export async function removeControlGroup(folder: string): Promise<boolean> {
  try {
    await rmdir(folder);
  } catch (error) {
    return !isSystemError(error, "EBUSY", "ENOTEMPTY");
  }
  return true;
}

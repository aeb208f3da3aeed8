import type { Stats } from "node:fs";
import fs from "node:fs/promises";
import { isSystemError, SerialQueue } from "@kip/base";
import {
  listLogFiles,
  type LogCalls,
  type LogFile,
  logPaths,
  numberedLog,
  statOrNone,
} from "./log-files.ts";

/** The system calls for settling a log. */
export type SettleCalls = LogCalls & Pick<typeof fs, "link" | "open" | "rename" | "unlink">;

/**
 * Longest time between the last write to a file and the creation of the next one by a conmon that writes without pause,
 * milliseconds. The kernel's timestamps have a resolution of 4 ms. If it took longer, conmon may have written another file in
 * between, which is lost.
 */
const nextFileMs = 5;

/**
 * Most steps at once. If a writer keeps starting new files, the rest is done later, because its changes wake the agent again.
 */
const maxSteps = 100;

/** The log's reader and its rotation may both notice a new file. */
const queue = new SerialQueue();

/** Runs of {@link numberLogFiles} that have not begun, by directory. */
const waiting = new Map<string, Promise<void>>();

/**
 * Numbers every file that conmon has started, and makes the next one wait under a second name, so that it is not lost when
 * conmon switches to another one. Each step is one system call, is correct in any state that conmon or a killed agent has left,
 * and depends only on file names. So this may be repeated at any time.
 *
 * Does nothing for a directory that conmon has not written to.
 */
export async function settleLog(directory: string, calls: SettleCalls = fs): Promise<void> {
  await queue.run(async () => {
    for (let step = 0; step < maxSteps; step++)
      if (!(await numberOne(directory, calls)) && !(await haveOneWait(directory, calls))) return;
  }, directory);
}

/**
 * The first part of {@link settleLog}. It needs no disk space, and is sufficient for readers. Callers share a run that has not
 * begun, because a log may have hundreds of readers. One that has begun may have missed what its caller knows of.
 */
export async function numberLogFiles(directory: string): Promise<void> {
  const shared = waiting.get(directory);
  if (shared) return await shared;
  let hasBegun = false;
  const run = queue.run(async () => {
    hasBegun = true;
    waiting.delete(directory);
    for (let step = 0; step < maxSteps && (await numberOne(directory, fs)); step++);
  }, directory);
  if (!hasBegun) waiting.set(directory, run);
  await run;
}

/** Whether a file is waiting for conmon, so that a change of it will indicate a full file. */
export async function isLogSettled(directory: string): Promise<boolean> {
  const { current, next } = logPaths(directory);
  const [written, waiting] = [await statOrNone(current), await statOrNone(next)];
  if (!written?.isFile()) return true;
  return waiting !== undefined && waiting.ino !== written.ino && waiting.nlink > 1;
}

/** @returns whether there may be more to do */
async function numberOne(directory: string, calls: SettleCalls): Promise<boolean> {
  const names = logPaths(directory);
  const written = await statOrNone(names.current, calls);
  // A container with access to this directory may have replaced the file.
  if (!written?.isFile()) return false;
  const current = written.ino;
  const files = await listLogFiles(directory, calls);
  const inodes = await Promise.all(
    files.map(async (file) => (await statOrNone(file.path, calls))?.ino),
  );
  const last = files.at(-1);
  const next = await statOrNone(names.next, calls);
  if (next) {
    // The file already has its number.
    if (inodes.includes(next.ino)) return await tried(calls.unlink(names.next));
    // The file is or was in use by conmon, because its other name is gone.
    if (next.ino === current || next.nlink === 1)
      return await tried(calls.link(names.next, numberedLog(directory, (last?.number ?? 0) + 1)));
    // The file is waiting, unless conmon has taken it since the first check.
    if ((await statOrNone(names.current, calls))?.ino !== current) return true;
  }
  // conmon was faster and created a file by itself.
  if (!inodes.includes(current))
    return await tried(numberCurrent(directory, { written, last }, calls));
  return false;
}

/** Numbers the current file, which conmon created itself. Skips a number if another file before it may be lost. */
async function numberCurrent(
  directory: string,
  { written, last }: { readonly written: Stats; readonly last: LogFile | undefined },
  calls: SettleCalls,
): Promise<void> {
  const number = (last?.number ?? 0) + 1;
  const before = last && (await statOrNone(last.path, calls));
  const isNext = !before || written.birthtimeMs - before.mtimeMs < nextFileMs;
  const numbered = numberedLog(directory, isNext ? number : number + 1);
  await calls.link(logPaths(directory).current, numbered);
  // conmon may have switched in the meantime.
  if (!isNext || (await statOrNone(numbered, calls))?.ino === written.ino) return;
  await calls.rename(numbered, numberedLog(directory, number + 1));
}

/** @returns whether there may be more to do */
async function haveOneWait(directory: string, calls: SettleCalls): Promise<boolean> {
  const { current, waiting, next } = logPaths(directory);
  if (await statOrNone(next, calls)) return false;
  if (!(await statOrNone(current, calls))?.isFile()) return false;
  // A file exists if conmon has just created it, or if an agent was killed at this point.
  if (await statOrNone(waiting, calls)) return await tried(calls.link(waiting, next));
  return await tried(calls.open(waiting, "ax", 0o600).then(async (handle) => await handle.close()));
}

/** File names change during these steps. The next check finds out what is left to do. */
async function tried(step: Promise<void>): Promise<true> {
  try {
    await step;
  } catch (error) {
    if (!isSystemError(error, "ENOENT", "EEXIST")) throw error;
  }
  return true;
}

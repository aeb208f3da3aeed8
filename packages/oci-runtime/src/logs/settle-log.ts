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

/** The calls of the kernel that a log is settled with. */
export type SettleCalls = LogCalls & Pick<typeof fs, "link" | "open" | "rename" | "unlink">;

/**
 * Of the last write to a file and the making of the next one by conmon, which writes without a pause, milliseconds; the kernel notes times
 * to 4. Where it took longer, conmon may have written another file in between, which is lost.
 */
const nextFileMs = 5;

/** A writer that begins new files all the time is followed later; its changes wake us again. */
const maxSteps = 100;

/** The log's reader and its rotation may both notice a new file. */
const queue = new SerialQueue();

/**
 * Gives every file of a log that conmon has begun its number, and has the next one wait with a second name, so that it
 * is not lost when conmon goes on to the one after it. Each step is one call of the kernel, is right in any state that
 * conmon or an agent that was killed has left, and shows in the names alone; so this can be repeated at any time.
 *
 * Does nothing for a directory that conmon has not written to.
 */
export async function settleLog(directory: string, calls: SettleCalls = fs): Promise<void> {
  await queue.run(async () => {
    for (let step = 0; step < maxSteps; step++)
      if (!(await numberOne(directory, calls)) && !(await haveOneWait(directory, calls))) return;
  }, directory);
}

/** The first part of {@link settleLog}, which takes no room on the disk and is all that a reader needs. */
export async function numberLogFiles(directory: string): Promise<void> {
  await queue.run(async () => {
    for (let step = 0; step < maxSteps && (await numberOne(directory, fs)); step++);
  }, directory);
}

/** Whether a file waits for conmon, so that a change of it will show that one is full. */
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
  // A container that can write here may have put something else in its place.
  if (!written?.isFile()) return false;
  const current = written.ino;
  const files = await listLogFiles(directory, calls);
  const inodes = await Promise.all(
    files.map(async (file) => (await statOrNone(file.path, calls))?.ino),
  );
  const last = files.at(-1);
  const next = await statOrNone(names.next, calls);
  if (next) {
    // It has its number already.
    if (inodes.includes(next.ino)) return await tried(calls.unlink(names.next));
    // It is written now, or has been: its other name is gone.
    if (next.ino === current || next.nlink === 1)
      return await tried(calls.link(names.next, numberedLog(directory, (last?.number ?? 0) + 1)));
    // It waits, unless conmon has taken it since the first look.
    if ((await statOrNone(names.current, calls))?.ino !== current) return true;
  }
  // conmon has made a file itself, as it was faster.
  if (!inodes.includes(current))
    return await tried(numberCurrent(directory, { written, last }, calls));
  return false;
}

/** Numbers the file that is written, which conmon has made. Where another may be lost before it, a number is left out. */
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
  // conmon may have gone on in the meantime.
  if (!isNext || (await statOrNone(numbered, calls))?.ino === written.ino) return;
  await calls.rename(numbered, numberedLog(directory, number + 1));
}

/** @returns whether there may be more to do */
async function haveOneWait(directory: string, calls: SettleCalls): Promise<boolean> {
  const { current, waiting, next } = logPaths(directory);
  if (await statOrNone(next, calls)) return false;
  if (!(await statOrNone(current, calls))?.isFile()) return false;
  // There is one if conmon has made it and is about to write to it, or an agent was killed here.
  if (await statOrNone(waiting, calls)) return await tried(calls.link(waiting, next));
  return await tried(calls.open(waiting, "ax", 0o600).then(async (handle) => await handle.close()));
}

/** Names come and go while steps are taken: another look shows what is to be done. */
async function tried(step: Promise<void>): Promise<true> {
  try {
    await step;
  } catch (error) {
    if (!isSystemError(error, "ENOENT", "EEXIST")) throw error;
  }
  return true;
}

import type { Stats } from "node:fs";
import fs from "node:fs/promises";
import path from "node:path";
import { isSystemError } from "@kip/base";

/**
 * The files of one container's log, in a directory of its own.
 *
 * conmon writes `current.log`. At the size limit it opens `current.log.tmp`, made or emptied, and renames it to
 * `current.log`, which takes the name of the full file away. So each file has a second name from before it is written:
 * `next.log` while it waits as `current.log.tmp`, then its number (see settle-log.ts). Readers know the numbers alone.
 */
export interface LogPaths {
  readonly current: string;
  /** The file that conmon goes on with. */
  readonly waiting: string;
  /** The second name of that file. */
  readonly next: string;
}

/** One numbered file; the highest number is the newest. */
export interface LogFile {
  readonly number: number;
  readonly path: string;
  readonly isCompressed: boolean;
}

/** The calls of the kernel that the names of a log are looked at with. */
export type LogCalls = Pick<typeof fs, "lstat"> & {
  readdir(directory: string): Promise<string[]>;
};

const numbered = /^(\d{1,15})\.log(\.gz)?$/;

export function logPaths(directory: string): LogPaths {
  const current = path.join(directory, "current.log");
  return { current, waiting: `${current}.tmp`, next: path.join(directory, "next.log") };
}

export function numberedLog(directory: string, number: number): string {
  return path.join(directory, `${number}.log`);
}

/** The numbered files of a log, the oldest first; of one that is being compressed, its plain file. Empty without a log. */
export async function listLogFiles(
  directory: string,
  calls: LogCalls = fs,
): Promise<readonly LogFile[]> {
  const files = new Map<number, LogFile>();
  for (const name of await namesIn(directory, calls)) {
    const [, digits, compressed] = numbered.exec(name) ?? [];
    if (digits === undefined) continue;
    const number = Number(digits);
    const isCompressed = compressed !== undefined;
    if (isCompressed && files.has(number)) continue;
    files.set(number, { number, path: path.join(directory, name), isCompressed });
  }
  return [...files.values()].toSorted((one, other) => one.number - other.number);
}

/** What a container's log takes of the disk, bytes; each file counts once. 0 without a log. */
export async function logUsageBytes(directory: string): Promise<number> {
  const sizes = new Map<number, number>();
  for (const name of await namesIn(directory)) {
    const info = await statOrNone(path.join(directory, name));
    if (info?.isFile()) sizes.set(info.ino, info.blocks * 512);
  }
  return [...sizes.values()].reduce((sum, size) => sum + size, 0);
}

/** Facts about a file, or a link in its place; undefined if there is none. */
export async function statOrNone(file: string, calls: LogCalls = fs): Promise<Stats | undefined> {
  return await calls.lstat(file).catch((error: unknown) => {
    if (isSystemError(error, "ENOENT")) return undefined;
    throw error;
  });
}

async function namesIn(directory: string, calls: LogCalls = fs): Promise<readonly string[]> {
  return await calls.readdir(directory).catch((error: unknown) => {
    if (isSystemError(error, "ENOENT", "ENOTDIR")) return [];
    throw error;
  });
}

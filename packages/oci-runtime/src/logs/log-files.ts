import type { Stats } from "node:fs";
import fs from "node:fs/promises";
import path from "node:path";
import { isSystemError } from "@kip/base";

/**
 * The files of one container's log, in a separate directory.
 *
 * conmon writes to `current.log`. When that reaches the size limit, conmon opens `current.log.tmp`, creating or truncating it,
 * and renames it to `current.log`. The full file loses its name. So each file gets a second name before it is used: `next.log`
 * while it waits as `current.log.tmp`, then its number (see settle-log.ts). Readers only use the numbers.
 */
export interface LogPaths {
  readonly current: string;
  /** The file that conmon will use next. */
  readonly waiting: string;
  /** The second name of that file. */
  readonly next: string;
}

/** A numbered file. The highest number is the newest. */
export interface LogFile {
  readonly number: number;
  readonly path: string;
  readonly isCompressed: boolean;
}

/** The system calls for inspecting a log's file names. */
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

/**
 * The numbered files of a log, the oldest first. While a file is being compressed, only its plain file is listed. Empty without
 * a log.
 */
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

/** Disk usage of a container's log, bytes. Each file counts once. 0 without a log. */
export async function logUsageBytes(directory: string): Promise<number> {
  const sizes = new Map<number, number>();
  for (const name of await namesIn(directory)) {
    const info = await statOrNone(path.join(directory, name));
    if (info?.isFile()) sizes.set(info.ino, info.blocks * 512);
  }
  return [...sizes.values()].reduce((sum, size) => sum + size, 0);
}

/** Facts about a file, without following links. Undefined if it does not exist. */
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

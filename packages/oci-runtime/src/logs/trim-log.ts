import { createReadStream, createWriteStream } from "node:fs";
import { rename, rm, unlink } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { isSystemError } from "@kip/base";
import { listLogFiles, statOrNone, type LogFile } from "./log-files.ts";
import type { LogLimits } from "./log-limits.ts";

/**
 * A file that filled up faster than this is not compressed, milliseconds. It will soon be removed, and compressing such files
 * would keep the processor busy. The kubelet checks for full files at the same interval.
 */
const quickFileMs = 10_000;

/** Removes log files that exceed the limits, or that are older than a lost file. */
export async function removeOldLogs(directory: string, limits: LogLimits): Promise<void> {
  const files = await listLogFiles(directory);
  const kept = await countKept(files, limits);
  for (const { number } of files.slice(0, files.length - kept))
    for (const end of ["", ".gz", ".gz.part"])
      await rm(`${directory}/${number}.log${end}`, { force: true });
}

/** Number of the newest files to keep: at most the limit, and none that would exceed the total size. */
async function countKept(
  files: readonly LogFile[],
  { maxFiles, maxFileBytes }: LogLimits,
): Promise<number> {
  let bytes = 0;
  let count = 0;
  for (const { path, number, isCompressed } of files.toReversed()) {
    const newer = files.at(-count)?.number;
    const isContiguous = count === 0 || newer === number + 1;
    if (!isContiguous || count >= maxFiles || bytes >= maxFiles * maxFileBytes) break;
    bytes += isCompressed ? maxFileBytes : ((await statOrNone(path))?.size ?? 0);
    count += 1;
  }
  return count;
}

/**
 * Compresses the files of a log, except for the current file and the last full one, which readers may still use. Repeats
 * compressions that were interrupted.
 */
export async function compressOldLogs(directory: string, signal: AbortSignal): Promise<void> {
  const files = await listLogFiles(directory);
  const [before, full] = files.slice(-3);
  if (files.length < 3 || !before || !full) return;
  const times = [await statOrNone(before.path), await statOrNone(full.path)] as const;
  if ((times[1]?.mtimeMs ?? 0) - (times[0]?.mtimeMs ?? 0) < quickFileMs) return;
  for (const { isCompressed, path } of files.slice(0, -2))
    if (!isCompressed) await compress(path, signal);
}

async function compress(file: string, signal: AbortSignal): Promise<void> {
  const part = `${file}.gz.part`;
  try {
    const output = createWriteStream(part, { mode: 0o600 });
    await pipeline(createReadStream(file), createGzip({ level: 1 }), output, { signal });
    await rename(part, `${file}.gz`);
    await unlink(file);
  } catch (error) {
    await rm(part, { force: true });
    // The file may have been removed in the meantime, because of its age.
    if (!signal.aborted && !isSystemError(error, "ENOENT")) throw error;
  }
}

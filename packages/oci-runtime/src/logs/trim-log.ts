import { createReadStream, createWriteStream } from "node:fs";
import { rename, rm, unlink } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { isSystemError } from "@kip/base";
import { listLogFiles, statOrNone } from "./log-files.ts";

/**
 * A file that was full in less time than this is not compressed (milliseconds): it will be removed soon, and a container
 * that writes that much would keep the processor busy. The kubelet looks for full files as often.
 */
const quickFileMs = 10_000;

/** Removes the oldest files of a log beyond the limit. */
export async function removeOldLogs(directory: string, maxFiles: number): Promise<void> {
  const files = await listLogFiles(directory);
  for (const { number } of files.slice(0, -maxFiles))
    for (const end of ["", ".gz", ".gz.part"])
      await rm(`${directory}/${number}.log${end}`, { force: true });
}

/**
 * Compresses the files of a log but for the one that is written and the last full one, which readers may be at. What was
 * broken off is done again.
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
    // It may have become too old in the meantime.
    if (!signal.aborted && !isSystemError(error, "ENOENT")) throw error;
  }
}

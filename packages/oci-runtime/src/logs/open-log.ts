import { lstat } from "node:fs/promises";
import { RuntimeError } from "../errors.ts";
import { listLogFiles, statOrNone } from "./log-files.ts";
import { contentBytes, logNotFound, openLogFile, type OpenLogFile } from "./open-log-file.ts";
import { numberLogFiles } from "./settle-log.ts";
import { findTail } from "./tail.ts";

/** A position in a log: a file's number and an offset in that file, bytes. */
export interface LogPlace {
  readonly number: number;
  readonly offset: number;
}

/**
 * Where reading starts: a number of lines before the end of the newest file with content; a number of bytes before the log's
 * end; or a position.
 */
export type LogPosition =
  | { readonly kind: "newest"; readonly tailLines?: number | undefined }
  | { readonly kind: "tail"; readonly bytes: number }
  | { readonly kind: "place"; readonly place: LogPlace };

/** Most attempts to open a file. Names change during that, because full files are compressed and old ones removed. */
const openTries = 10;
const lineEnd = 0x0a;

/** Opens the first file to read, at the start position. */
export async function openStart(
  directory: string,
  from: LogPosition,
  signal: AbortSignal,
): Promise<OpenLogFile> {
  if (from.kind === "tail") return await openTail(directory, from.bytes);
  const number = from.kind === "place" ? from.place.number : await newestWithText(directory);
  const file = await openAfter(directory, number - 1);
  if (!file) throw logNotFound(directory);
  try {
    if (from.kind === "place") {
      if (file.number === number) await file.skip(from.place.offset);
    } else if (from.tailLines !== undefined && !file.isCompressed) {
      const { size } = await file.handle.stat();
      await file.skip(await findTail(file.handle, size, from.tailLines, signal));
    }
    return file;
  } catch (error) {
    await file[Symbol.asyncDispose]();
    throw error;
  }
}

/** Opens the file that contains the start of the log's last bytes, at the first line that starts there. */
async function openTail(directory: string, bytes: number): Promise<OpenLogFile> {
  let left = bytes;
  let file: OpenLogFile | undefined;
  for (const { number } of (await listLogFiles(directory)).toReversed()) {
    const before = await openAfter(directory, number - 1);
    if (before?.number !== number) {
      // The file was removed in the meantime, because of its age.
      await before?.[Symbol.asyncDispose]();
      break;
    }
    await file?.[Symbol.asyncDispose]();
    file = before;
    const size = await contentBytes(file);
    if (size > left) {
      await skipTo(file, size - left);
      break;
    }
    left -= size;
  }
  if (!file) throw logNotFound(directory);
  return file;
}

/** Skips to the first line that starts at an offset of 1 or more, or after it. */
async function skipTo(file: OpenLogFile, offset: number): Promise<void> {
  // Starts at the end of the previous line.
  await file.skip(offset - 1);
  for (let data = await file.read(); data.length > 0; data = await file.read()) {
    const end = data.indexOf(lineEnd);
    if (end < 0) continue;
    file.unread(data.subarray(end + 1));
    return;
  }
}

/** Opens the first file with a higher number. Undefined if there is none. */
export async function openAfter(
  directory: string,
  number: number,
): Promise<OpenLogFile | undefined> {
  for (let tries = 1; ; tries++) {
    await numberLogFiles(directory);
    const next = (await listLogFiles(directory)).find((file) => file.number > number);
    if (!next) return undefined;
    try {
      return await openLogFile(next);
    } catch (error) {
      if (tries === openTries || !RuntimeError.is(error, "LOG_NOT_FOUND")) throw error;
    }
  }
}

/** Number of the newest file with content. A file that conmon has just switched to is empty until the container writes. */
async function newestWithText(directory: string): Promise<number> {
  const files = await listLogFiles(directory);
  const [newest, before] = [files.at(-1), files.at(-2)];
  if (!newest) throw logNotFound(directory);
  return before && (await statOrNone(newest.path))?.size === 0 ? before.number : newest.number;
}

/** The present end of a log. @throws {RuntimeError} `LOG_NOT_FOUND` */
export async function endOfLog(directory: string): Promise<LogPlace> {
  await numberLogFiles(directory);
  const file = (await listLogFiles(directory)).at(-1);
  if (!file) throw logNotFound(directory);
  return { number: file.number, offset: (await lstat(file.path)).size };
}

/** Number of the file that is being written, or of the last one. @throws {RuntimeError} `LOG_NOT_FOUND` */
export async function newestNumber(directory: string): Promise<number> {
  const file = (await listLogFiles(directory)).at(-1);
  if (!file) throw logNotFound(directory);
  return file.number;
}

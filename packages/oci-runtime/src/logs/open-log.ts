import { lstat } from "node:fs/promises";
import { RuntimeError } from "../errors.ts";
import { listLogFiles, statOrNone } from "./log-files.ts";
import { contentBytes, logNotFound, openLogFile, type OpenLogFile } from "./open-log-file.ts";
import { numberLogFiles } from "./settle-log.ts";
import { findTail } from "./tail.ts";

/** A place in a log: the number of the file and an offset in it, bytes. */
export interface LogPlace {
  readonly number: number;
  readonly offset: number;
}

/** Where reading starts: in the newest file that has something, so many lines before its end; so many bytes before the end; at a place. */
export type LogPosition =
  | { readonly kind: "newest"; readonly tailLines?: number | undefined }
  | { readonly kind: "tail"; readonly bytes: number }
  | { readonly kind: "place"; readonly place: LogPlace };

/** Names of files change while they are opened: a full file is compressed, an old one removed. */
const openTries = 10;
const lineEnd = 0x0a;

/** The file that reading starts with, at the place where it does. */
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

/** Opens the file in which the last bytes of a log begin, at the first line that begins there. */
async function openTail(directory: string, bytes: number): Promise<OpenLogFile> {
  let left = bytes;
  let file: OpenLogFile | undefined;
  for (const { number } of (await listLogFiles(directory)).toReversed()) {
    const before = await openAfter(directory, number - 1);
    if (before?.number !== number) {
      // It has become too old.
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

/** Goes to the first line that begins at an offset, 1 or more, or behind it. */
async function skipTo(file: OpenLogFile, offset: number): Promise<void> {
  // From the end of the line before.
  await file.skip(offset - 1);
  for (let data = await file.read(); data.length > 0; data = await file.read()) {
    const end = data.indexOf(lineEnd);
    if (end < 0) continue;
    file.unread(data.subarray(end + 1));
    return;
  }
}

/** Opens the first file with a higher number; undefined if there is none. */
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

/** Number of the newest file that has something: what conmon has gone on to is empty until the container writes. */
async function newestWithText(directory: string): Promise<number> {
  const files = await listLogFiles(directory);
  const [newest, before] = [files.at(-1), files.at(-2)];
  if (!newest) throw logNotFound(directory);
  return before && (await statOrNone(newest.path))?.size === 0 ? before.number : newest.number;
}

/** Where a log ends now. @throws {RuntimeError} `LOG_NOT_FOUND` */
export async function endOfLog(directory: string): Promise<LogPlace> {
  await numberLogFiles(directory);
  const file = (await listLogFiles(directory)).at(-1);
  if (!file) throw logNotFound(directory);
  return { number: file.number, offset: (await lstat(file.path)).size };
}

/** Number of the file that is written, or was the last. @throws {RuntimeError} `LOG_NOT_FOUND` */
export async function newestNumber(directory: string): Promise<number> {
  const file = (await listLogFiles(directory)).at(-1);
  if (!file) throw logNotFound(directory);
  return file.number;
}

import { constants } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import { Readable } from "node:stream";
import { isSystemError } from "@kip/base";
import { RuntimeError } from "../errors.ts";
import { parseLogLine, shownTime, type LogEntry } from "./log-line.ts";
import { LogChanges } from "./log-changes.ts";
import { findTail } from "./tail.ts";

/** What part of a log to read. */
export interface LogReadOptions {
  /** Go on with what comes until the container has ended. @default false */
  readonly follow?: boolean | undefined;
  /** Put the time before each line. @default false */
  readonly timestamps?: boolean | undefined;
  /** Only the last lines, 0 or more. @default all */
  readonly tailLines?: number | undefined;
  /** Only lines that begin in the last bytes of the file; not together with `tailLines`. @default all */
  readonly tailBytes?: number | undefined;
  /** Only lines at or after this time, milliseconds since the epoch. */
  readonly sinceTimeMs?: number | undefined;
  /** Ends after so many bytes of output, 1 or more. */
  readonly limitBytes?: number | undefined;
}

/** Where reading starts: so many lines or bytes before the end, or at an offset in bytes. */
type LogPosition =
  { readonly tailLines: number } | { readonly tailBytes: number } | { readonly offset: number };

/** Where reading starts and when it ends. */
export interface LogEntriesOptions {
  readonly from: LogPosition;
  /** Resolves when the container no longer writes; absent: the end of the file is the end. */
  readonly ended?: Promise<unknown> | undefined;
  readonly signal: AbortSignal;
}

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
const blockBytes = 65_536;
/** A line longer than this is handed on in parts, so that a hostile log cannot fill the memory. */
const longestLineBytes = 1_048_576;

/**
 * The entries of a log file, in order; other lines are left out.
 * @throws {RuntimeError} `LOG_NOT_FOUND`
 */
export async function* readLogEntries(
  file: string,
  options: LogEntriesOptions,
): AsyncGenerator<LogEntry> {
  await using handle = await openLog(file);
  const changes = options.ended ? new LogChanges(file, options.ended, options.signal) : undefined;
  try {
    let offset = await startOffset(handle, options);
    let rest: Buffer = Buffer.alloc(0);
    for (;;) {
      options.signal.throwIfAborted();
      // Asked before reading: what is written after the end was noticed does not exist.
      const isLast = changes?.hasEnded ?? true;
      const block = Buffer.allocUnsafe(blockBytes);
      const { bytesRead } = await handle.read(block, 0, blockBytes, offset);
      if (bytesRead === 0) {
        if (isLast || !changes) return;
        await changes.next();
        continue;
      }
      offset += bytesRead;
      const lines = splitLines(Buffer.concat([rest, block.subarray(0, bytesRead)]));
      rest = lines.rest;
      for (const line of lines.complete) {
        const entry = parseLogLine(line);
        if (entry) yield entry;
      }
    }
  } finally {
    changes?.[Symbol.dispose]();
  }
}

/** A log as `kubectl logs` shows it. Ends at the limit, at the end of the file, or with the container. */
export function readLog(
  file: string,
  options: LogReadOptions,
  ended: Promise<unknown>,
  signal: AbortSignal,
): Readable {
  return Readable.from(shownLog(file, options, ended, signal), { objectMode: false });
}

async function* shownLog(
  file: string,
  options: LogReadOptions,
  ended: Promise<unknown>,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  let left = options.limitBytes ?? Number.POSITIVE_INFINITY;
  // The time goes before a line, not before each part of it, and each stream has its own lines.
  const isMidLine = { stdout: false, stderr: false };
  const entries = readLogEntries(file, {
    from: startOf(options),
    signal,
    ended: options.follow ? ended : undefined,
  });
  for await (const entry of entries) {
    if (options.sinceTimeMs !== undefined && Date.parse(entry.time) < options.sinceTimeMs) continue;
    const hasTime = options.timestamps && !isMidLine[entry.stream];
    isMidLine[entry.stream] = entry.isPartial;
    const text = Buffer.concat([
      ...(hasTime ? [Buffer.from(`${shownTime(entry.time)} `)] : []),
      entry.content,
      ...(entry.isPartial ? [] : [Buffer.from("\n")]),
    ]);
    if (text.length >= left) {
      yield text.subarray(0, left);
      return;
    }
    left -= text.length;
    if (text.length > 0) yield text;
  }
}

function startOf({ tailLines, tailBytes }: LogReadOptions): LogPosition {
  if (tailLines !== undefined) return { tailLines };
  return tailBytes === undefined ? { offset: 0 } : { tailBytes };
}

async function openLog(file: string): Promise<FileHandle> {
  try {
    // A container that can write beside it may have put a link, a pipe or a device in its place.
    const handle = await open(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if ((await handle.stat()).isFile()) return handle;
    await handle.close();
    throw new RuntimeError("LOG_NOT_FOUND", `Cannot read log "${file}": it is not a file`);
  } catch (error) {
    if (!isSystemError(error, "ENOENT", "ELOOP", "ENXIO")) throw error;
    throw new RuntimeError("LOG_NOT_FOUND", `Cannot read log "${file}": it does not exist`, {
      cause: error,
      remedy: "The container has not been created yet, or its log is removed.",
    });
  }
}

async function startOffset(
  handle: FileHandle,
  { from, signal }: LogEntriesOptions,
): Promise<number> {
  if ("offset" in from) return from.offset;
  const { size } = await handle.stat();
  if ("tailBytes" in from) return await nextLine(handle, size - from.tailBytes);
  return await findTail(handle, size, from.tailLines, signal);
}

/** Offset of the first line that begins there or later. */
async function nextLine(handle: FileHandle, offset: number): Promise<number> {
  if (offset <= 0) return 0;
  const block = Buffer.allocUnsafe(blockBytes);
  // From the end of the line before.
  for (let position = offset - 1; ;) {
    const { bytesRead } = await handle.read(block, 0, blockBytes, position);
    const end = block.subarray(0, bytesRead).indexOf(0x0a);
    if (end >= 0) return position + end + 1;
    position += bytesRead;
    if (bytesRead === 0) return position;
  }
}

function splitLines(data: Buffer): { readonly complete: readonly Buffer[]; readonly rest: Buffer } {
  const complete: Buffer[] = [];
  let start = 0;
  for (let end = data.indexOf(0x0a); end >= 0; end = data.indexOf(0x0a, start)) {
    complete.push(data.subarray(start, end));
    start = end + 1;
  }
  const rest = data.subarray(start);
  if (rest.length <= longestLineBytes) return { complete, rest };
  return { complete: [...complete, rest], rest: Buffer.alloc(0) };
}

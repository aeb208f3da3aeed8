import { Readable } from "node:stream";
import { logPaths, statOrNone } from "./log-files.ts";
import { LogChanges } from "./log-changes.ts";
import { parseLogLine, shownTime, type LogEntry } from "./log-line.ts";
import { newestNumber, openAfter, openStart, type LogPosition } from "./open-log.ts";
import type { OpenLogFile } from "./open-log-file.ts";
import { numberLogFiles } from "./settle-log.ts";

/** Which part of a log to read. Without `tailBytes`, reading starts in the newest file, as in the kubelet. */
export interface LogReadOptions {
  /** Whether to continue with new output until the container has ended, including later files. @default false */
  readonly follow?: boolean | undefined;
  /** Whether to write the time before each line. @default false */
  readonly timestamps?: boolean | undefined;
  /** Only the last lines of the newest file, 0 or more. With `follow`, also what is written later. @default all lines */
  readonly tailLines?: number | undefined;
  /** Only lines that start within the last bytes of all files. Not together with `tailLines`. */
  readonly tailBytes?: number | undefined;
  /** Only lines at or after this time, milliseconds since the epoch. */
  readonly sinceTimeMs?: number | undefined;
  /** Stop after this many bytes of output, 1 or more. */
  readonly limitBytes?: number | undefined;
}

/** Start and end of reading. */
export interface LogEntriesOptions {
  readonly from: LogPosition;
  /** Resolves when the container no longer writes. Absent: reading ends at the end of the newest file. */
  readonly ended?: Promise<unknown> | undefined;
  readonly signal: AbortSignal;
}

/** A longer line is returned in parts, so that a hostile log cannot exhaust the memory. */
const longestLineBytes = 1_048_576;
const lineEnd = 0x0a;

/**
 * The entries of a log, in order, those of one read at a time. Invalid lines are skipped. If a slow reader finds that its next
 * files were removed, it continues with the oldest one.
 *
 * @param directory the log's directory, see log-files.ts
 * @throws {RuntimeError} `LOG_NOT_FOUND`
 */
export async function* readLogEntries(
  directory: string,
  options: LogEntriesOptions,
): AsyncGenerator<readonly LogEntry[]> {
  const { ended, signal } = options;
  await numberLogFiles(directory);
  const newest = await newestNumber(directory);
  let file = await openStart(directory, options.from, signal);
  const changes = ended && new LogChanges(ended, signal);
  try {
    for (;;) {
      changes?.watch(file.path);
      yield* entriesOf(file, { directory, changes, signal });
      const next = await openAfter(directory, file.number);
      if (!next) return;
      await file[Symbol.asyncDispose]();
      file = next;
      if (!changes && file.number > newest) return;
    }
  } finally {
    changes?.[Symbol.dispose]();
    await file[Symbol.asyncDispose]();
  }
}

/** A log in the form of `kubectl logs`. Ends at the limit, at the end of the newest file, or with the container. */
export function readLog(
  directory: string,
  options: LogReadOptions,
  ended: Promise<unknown>,
  signal: AbortSignal,
): Readable {
  return Readable.from(shownLog(directory, options, ended, signal), { objectMode: false });
}

async function* shownLog(
  directory: string,
  options: LogReadOptions,
  ended: Promise<unknown>,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  const { follow, tailLines, limitBytes = Number.POSITIVE_INFINITY } = options;
  let left = limitBytes;
  // The container may write while the tail is read.
  let linesLeft = follow || tailLines === undefined ? Number.POSITIVE_INFINITY : tailLines;
  // Each line has one time, even if it has several parts. Each stream has its own lines.
  const isMidLine = { stdout: false, stderr: false };
  const blocks = readLogEntries(directory, {
    from: startOf(options),
    signal,
    ended: follow ? ended : undefined,
  });
  for await (const block of blocks) {
    if (linesLeft === 0) return;
    const entries = firstLines(block, linesLeft);
    linesLeft -= entries.filter(({ isPartial }) => !isPartial).length;
    const shown = Buffer.concat(entries.flatMap((entry) => shownParts(entry, options, isMidLine)));
    if (shown.length >= left) {
      yield shown.subarray(0, left);
      return;
    }
    left -= shown.length;
    if (shown.length > 0) yield shown;
  }
}

/** The entries until the given number of lines, 1 or more, is complete. */
function firstLines(entries: readonly LogEntry[], lines: number): readonly LogEntry[] {
  const ends = entries.flatMap(({ isPartial }, index) => (isPartial ? [] : [index + 1]));
  return entries.slice(0, ends[lines - 1]);
}

const newline = Buffer.from("\n");

/** The output for an entry. Updates whether each stream is in the middle of a line. */
function shownParts(
  entry: LogEntry,
  { sinceTimeMs, timestamps }: LogReadOptions,
  isMidLine: Record<LogEntry["stream"], boolean>,
): readonly Buffer[] {
  if (sinceTimeMs !== undefined && Date.parse(entry.time) < sinceTimeMs) return [];
  const hasTime = timestamps && !isMidLine[entry.stream];
  isMidLine[entry.stream] = entry.isPartial;
  return [
    ...(hasTime ? [Buffer.from(`${shownTime(entry.time)} `)] : []),
    entry.content,
    ...(entry.isPartial ? [] : [newline]),
  ];
}

function startOf({ tailLines, tailBytes }: LogReadOptions): LogPosition {
  if (tailLines !== undefined || tailBytes === undefined) return { kind: "newest", tailLines };
  return { kind: "tail", bytes: tailBytes };
}

/** The entries of one file up to its end. If there are changes to wait for, includes entries that are written later. */
async function* entriesOf(
  file: OpenLogFile,
  {
    directory,
    changes,
    signal,
  }: {
    readonly directory: string;
    readonly changes: LogChanges | undefined;
    readonly signal: AbortSignal;
  },
): AsyncGenerator<readonly LogEntry[]> {
  let rest: Buffer = Buffer.alloc(0);
  let isFull = file.isCompressed;
  for (;;) {
    signal.throwIfAborted();
    // Checked before reading, because nothing is written after the end was noticed.
    const isLast = changes?.hasEnded ?? true;
    const data = await file.read();
    if (data.length > 0) {
      const lines = splitLines(Buffer.concat([rest, data]));
      rest = lines.rest;
      yield lines.complete.flatMap((line) => parseLogLine(line) ?? []);
      continue;
    }
    if (isFull) return;
    isFull = (await statOrNone(logPaths(directory).current))?.ino !== file.inode;
    // The last lines may have been written between the two checks.
    if (isFull) continue;
    if (isLast || !changes) return;
    await changes.next();
  }
}

function splitLines(data: Buffer): { readonly complete: readonly Buffer[]; readonly rest: Buffer } {
  const complete: Buffer[] = [];
  let start = 0;
  for (let end = data.indexOf(lineEnd); end >= 0; end = data.indexOf(lineEnd, start)) {
    complete.push(data.subarray(start, end));
    start = end + 1;
  }
  const rest = data.subarray(start);
  if (rest.length <= longestLineBytes) return { complete, rest };
  return { complete: [...complete, rest], rest: Buffer.alloc(0) };
}

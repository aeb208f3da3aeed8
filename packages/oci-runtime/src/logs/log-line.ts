/** One entry of a log file: a container's output up to a line end, or a part of a long line. */
export interface LogEntry {
  /** RFC 3339 with nanoseconds, unchanged from the file. */
  readonly time: string;
  readonly stream: "stdout" | "stderr";
  /** Whether the line continues in the stream's next entry. */
  readonly isPartial: boolean;
  /** The container's output, without the line end. */
  readonly content: Buffer;
}

const space = 0x20;

/**
 * Parses a line in the CRI log format: `<time> <stdout|stderr> <tags> <content>`. The tags are `F` or `P`, and possibly others
 * after a colon.
 *
 * @returns undefined for a line in another format (cut off by a crash, for example)
 * @see https://github.com/kubernetes/design-proposals-archive/blob/main/node/kubelet-cri-logging.md
 */
export function parseLogLine(line: Buffer): LogEntry | undefined {
  const first = line.indexOf(space);
  const second = first < 0 ? -1 : line.indexOf(space, first + 1);
  if (second < 0) return undefined;
  const found = line.indexOf(space, second + 1);
  // The entry of an empty line may end after the tag.
  const third = found < 0 ? line.length : found;
  const stream = line.toString("latin1", first + 1, second);
  const tag = line.toString("latin1", second + 1, third).split(":", 1)[0];
  if ((stream !== "stdout" && stream !== "stderr") || (tag !== "F" && tag !== "P"))
    return undefined;
  return {
    time: line.toString("latin1", 0, first),
    stream,
    isPartial: tag === "P",
    content: line.subarray(third + 1),
  };
}

/** The time of an entry in the form of `kubectl logs --timestamps`: UTC with a `Z`. */
export function shownTime(time: string): string {
  if (time.endsWith("+00:00")) return `${time.slice(0, -6)}Z`;
  const fraction = /\.\d+/.exec(time)?.[0] ?? "";
  const ms = Date.parse(time);
  if (Number.isNaN(ms)) return time;
  return `${new Date(ms).toISOString().slice(0, 19)}${fraction}Z`;
}

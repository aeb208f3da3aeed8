import { constants } from "node:fs";
import fs from "node:fs/promises";
import type { DesiredContainer } from "@kip/agent-api";
import { withTimeout, type Clock, isSystemError } from "@kip/base";
import type { ContainerRuntime } from "@kip/oci-runtime";

const maxFileBytes = 4096;
/** How much of the log's end replaces a message, as in the kubelet. */
const maxLogBytes = 2048;
const maxLogLines = 80;
/**
 * This much of the log file always contains that, whatever the container printed. An entry for a single byte needs 46 bytes
 * more, and an entry of conmon has at most 8 KiB.
 */
const logEndBytes = 128 * 1024;
/** On a machine that its pod keeps busy, reading that has taken more than 5 s. */
const logLimitMs = 30_000;
const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;

/**
 * A container's termination message: the end of its message file, or of its log if it failed without a message and its policy
 * says so.
 */
export async function terminationMessage(options: {
  readonly container: DesiredContainer;
  readonly exitCode: number;
  readonly terminationFile: string;
  readonly logDirectory: string;
  readonly id: string;
  readonly runtime: Pick<ContainerRuntime, "logs">;
  readonly clock: Clock;
}): Promise<string | undefined> {
  const message = await readEnd(options.terminationFile, maxFileBytes);
  if (message !== "") return message;
  const { terminationMessagePolicy } = options.container;
  if (terminationMessagePolicy !== "FallbackToLogsOnError" || options.exitCode === 0)
    return undefined;
  const text = lastLines(await logEnd(options));
  return text === "" ? undefined : text;
}

/** The last bytes of the container's output. */
async function logEnd(
  options: Pick<
    Parameters<typeof terminationMessage>[0],
    "id" | "logDirectory" | "runtime" | "clock"
  >,
): Promise<Buffer> {
  const { id, logDirectory, runtime, clock } = options;
  const from = { tailBytes: logEndBytes };
  const read = async (signal: AbortSignal): Promise<Buffer> => {
    let end: Buffer = Buffer.alloc(0);
    const log = runtime.logs(id, logDirectory, from, signal);
    for await (const chunk of log as AsyncIterable<Buffer | string>)
      end = Buffer.concat([end, Buffer.from(chunk).subarray(-maxLogBytes)]).subarray(-maxLogBytes);
    return end;
  };
  return await withTimeout(read, { limitMs: logLimitMs, clock });
}

function lastLines(log: Buffer): string {
  let start = log.length;
  for (let count = 0; count < maxLogLines && start > 0; count++)
    start = start > 1 ? log.lastIndexOf(0x0a, start - 2) + 1 : 0;
  return log.subarray(start).toString();
}

async function readEnd(file: string, maxBytes: number): Promise<string> {
  try {
    // A container that can reach it through a hostPath may have replaced it by a link, a pipe or a device.
    await using handle = await fs.open(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    const stat = await handle.stat();
    if (!stat.isFile()) return "";
    const { size } = stat;
    const length = Math.min(size, maxBytes);
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(length), 0, length, size - length);
    return buffer.subarray(0, bytesRead).toString();
  } catch (error) {
    if (isSystemError(error, "ENOENT", "ELOOP", "ENXIO")) return "";
    throw error;
  }
}

import { spawn } from "node:child_process";
import type { FileHandle } from "node:fs/promises";
import type { Writable } from "node:stream";
import { untilAborted, type ProcessStreams, type TerminalSize } from "@kip/base";
import { openControl } from "../control-pipe.ts";
import { copyInput, finishOutput, writeAtPace } from "./copy-streams.ts";
import { isSize } from "./terminal.ts";
import { endOfLog } from "../logs/open-log.ts";
import type { LogEntry } from "../logs/log-line.ts";
import { readLogEntries } from "../logs/read-log.ts";
import type { ContainerPaths } from "../run-paths.ts";
import type { ContainerRecord } from "../state/container-record.ts";

const newline = Buffer.from("\n");

/**
 * Connects a client to a container's main process until the container ends.
 *
 * Output comes from the log, to which conmon writes every piece at once. The log keeps the two streams separate, and a slow
 * client cannot stall the container. Input goes to conmon's attach socket, through socat because Node does not support
 * SOCK_SEQPACKET.
 */
export async function attachProcess(
  record: ContainerRecord,
  files: ContainerPaths,
  streams: ProcessStreams,
  ended: Promise<unknown>,
  signal: AbortSignal,
): Promise<void> {
  // It rejects on abort, possibly before the log's reader waits for it. The reader notices an abort on its own.
  ended.catch(() => {});
  // Before any input is sent, so that no output that it causes is missed.
  const from = { kind: "place", place: await endOfLog(record.logDirectory) } as const;
  const input = streams.stdin && record.stdin !== "closed" ? sendInput(files, streams) : undefined;
  const control = record.tty && streams.resizes ? await openControl(files.control) : undefined;
  if (control && streams.resizes) passResizes(control, streams.resizes);
  try {
    const targets = { stdout: streams.stdout, stderr: record.tty ? undefined : streams.stderr };
    for (const target of Object.values(targets)) target?.on("error", () => {}); // the client is gone
    const blocks = readLogEntries(record.logDirectory, { from, ended, signal });
    for await (const entries of blocks)
      for (const { stream, text } of outputOf(entries)) {
        const target = targets[stream];
        if (target) await untilAborted(writeAtPace(target, text), signal);
      }
    const finishing = Promise.all([finishOutput(streams.stdout), finishOutput(streams.stderr)]);
    await untilAborted(finishing, signal);
  } finally {
    input?.kill();
    await control?.close();
  }
}

/** The text of log entries. Adjacent entries of one stream are joined, because each write takes a turn of the event loop. */
function outputOf(entries: readonly LogEntry[]) {
  const output: { readonly stream: LogEntry["stream"]; readonly parts: Buffer[] }[] = [];
  for (const { stream, content, isPartial } of entries) {
    if (output.at(-1)?.stream !== stream) output.push({ stream, parts: [] });
    output.at(-1)?.parts.push(content, ...(isPartial ? [] : [newline]));
  }
  return output.map(({ stream, parts }) => ({ stream, text: Buffer.concat(parts) }));
}

function sendInput(files: ContainerPaths, streams: ProcessStreams): { kill(): void } {
  const child = spawn(
    "/usr/bin/socat",
    // type=5 is SOCK_SEQPACKET. conmon accepts packets of up to 32 KiB.
    ["-b", "8192", "-", `UNIX-CONNECT:${files.attachSocket},type=5`],
    { stdio: ["pipe", "ignore", "ignore"], env: { PATH: "/usr/bin:/bin" } },
  );
  child.on("error", () => {}); // input is then lost, but output still works
  // Without free file descriptors there is no pipe, whatever its type says.
  const pipe = child.stdin as Writable | undefined;
  if (streams.stdin && pipe) void copyInput(streams.stdin, pipe);
  return { kill: () => void child.kill("SIGKILL") };
}

/** `1 <rows> <columns>` on the control pipe sets the size of the container's terminal. */
function passResizes(control: FileHandle, sizes: AsyncIterable<TerminalSize>): void {
  void (async () => {
    for await (const size of sizes) {
      if (isSize(size)) await control.write(`1 ${size.rows} ${size.columns}\n`);
    }
  })().catch(() => {}); // the container has ended, so sizes are no longer needed
}

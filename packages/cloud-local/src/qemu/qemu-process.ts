import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { open, type FileHandle } from "node:fs/promises";
import { Socket } from "node:net";
import { pause, systemClock, withTimeout } from "@kip/base";
import { firstLine, readStart } from "../host/file-text.ts";
import { MachineError } from "../host/machine-error.ts";
import { QmpSession } from "./qmp-session.ts";

/** Time limit until QEMU answers, milliseconds. */
const startLimitMs = 30_000;

/** Enough for the first line of QEMU's log. The log itself has no limit: a guest that has broken into QEMU may write to it. */
const logBytes = 4096;

/** Options of {@link startQemu}. */
export interface StartQemuOptions {
  /** The program, preceded by those that prepare its environment: `nsenter --net=… qemu-system-x86_64`. */
  readonly program: readonly string[];
  /** From `qemuArguments`. */
  readonly args: readonly string[];
  /** File for QEMU's error messages. */
  readonly logFile: string;
  /** Open for reading. Becomes QEMU's `stateDescriptor`. The caller closes it. */
  readonly state?: FileHandle | undefined;
}

/** A QEMU from the point of view of the process that started it. It outlives that process. */
export interface StartedQemu extends Disposable {
  readonly commands: QmpSession;
  /** The host's end of the machine's clone port. */
  readonly port: Socket;
  /** Aborts when QEMU has ended. The reason is an error with QEMU's message. */
  readonly ended: AbortSignal;
  /** Releases it. It keeps running. */
  [Symbol.dispose](): void;
}

/**
 * Starts QEMU and returns when it answers. The machine is not running yet.
 *
 * @throws {CloudError} `CLOUD_UNAVAILABLE` with QEMU's message
 */
export async function startQemu(options: StartQemuOptions): Promise<StartedQemu> {
  await using log = await open(options.logFile, "w", 0o600);
  const child = spawnQemu(options, log);
  const ended = endOf(child, options.logFile); // at once, because it may end at any time
  const commands = new QmpSession(asSocket(child.stdio[3]));
  const port = asSocket(child.stdio[4]);
  port.on("error", () => {}); // followed by "close"
  const started: StartedQemu = {
    commands,
    port,
    ended,
    [Symbol.dispose]() {
      child.unref();
      commands.close();
      port.destroy();
    },
  };
  try {
    await untilServed(started);
    return started;
  } catch (error) {
    started[Symbol.dispose]();
    if (child.pid !== undefined && child.exitCode === null && child.signalCode === null) {
      child.kill("SIGKILL");
      await once(child, "exit");
    }
    throw error;
  }
}

function spawnQemu({ program, args, state }: StartQemuOptions, log: FileHandle): ChildProcess {
  const [file = "", ...rest] = program;
  return spawn(file, [...rest, ...args], {
    cwd: "/",
    // A session of its own, so that Ctrl-C in a terminal does not end machines.
    detached: true,
    stdio: ["ignore", log.fd, log.fd, "pipe", "pipe", state?.fd ?? "ignore"],
  });
}

function endOf(child: ChildProcess, logFile: string): AbortSignal {
  const ended = new AbortController();
  child.once("error", (cause) => ended.abort(didNotRun(cause.message, cause)));
  child.once("exit", (code, signal) => {
    void firstLogLine(logFile).then((message) =>
      ended.abort(didNotRun(message || `QEMU ended with ${signal ?? `code ${code}`}`)),
    );
  });
  return ended.signal;
}

async function untilServed({ commands, ended }: StartedQemu): Promise<void> {
  // The connection closes shortly before the process has ended and its messages can be read.
  const served = commands.served.catch(async () => {
    await pause(Number.POSITIVE_INFINITY, systemClock, ended);
    throw ended.reason;
  });
  await withTimeout(async () => await served, {
    limitMs: startLimitMs,
    clock: systemClock,
    signal: ended,
    error: () => didNotRun(`QEMU did not answer within ${startLimitMs / 1000} s`),
  });
}

/** The first line of QEMU's log, without QEMU's name. */
async function firstLogLine(logFile: string): Promise<string> {
  return firstLine(await readStart(logFile, logBytes)).replace(/^\S*qemu-system-\S+: /, "");
}

function didNotRun(reason: string, cause?: unknown): MachineError {
  return new MachineError("Cannot run QEMU", reason, { cause });
}

function asSocket(stream: unknown): Socket {
  if (stream instanceof Socket) return stream;
  throw new TypeError("Node gave no socket for a pipe");
}

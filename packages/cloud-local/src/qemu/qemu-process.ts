import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { open, type FileHandle } from "node:fs/promises";
import { Socket } from "node:net";
import { pause, systemClock, withTimeout } from "@kip/base";
import { firstLine, readStart } from "../host/file-text.ts";
import { MachineError } from "../host/machine-error.ts";
import { QmpSession } from "./qmp-session.ts";

/** How long QEMU may take until it answers. */
const startLimitMs = 30_000;

/** Holds the first line of QEMU's log. The log has no limit: a guest that has broken into QEMU may write to it. */
const logBytes = 4096;

/** How {@link startQemu} starts a QEMU. */
export interface StartQemuOptions {
  /** The program, after those that prepare its surroundings: `nsenter --net=… qemu-system-x86_64`. */
  readonly program: readonly string[];
  /** As `qemuArguments` gives them. */
  readonly args: readonly string[];
  /** Takes what QEMU says of failures. */
  readonly logFile: string;
  /** Open for reading; becomes QEMU's `stateDescriptor`. Not closed here. */
  readonly state?: FileHandle | undefined;
}

/** A QEMU as the process that starts it sees it. It outlives that process. */
export interface StartedQemu extends Disposable {
  readonly commands: QmpSession;
  /** The host's end of the machine's clone port. */
  readonly port: Socket;
  /** Aborts when QEMU has ended; the reason is an error with what it said. */
  readonly ended: AbortSignal;
  /** Lets go of it: it runs on. */
  [Symbol.dispose](): void;
}

/**
 * Starts QEMU and returns when it answers; the machine does not run yet.
 *
 * @throws {CloudError} `CLOUD_UNAVAILABLE` with what QEMU said
 */
export async function startQemu(options: StartQemuOptions): Promise<StartedQemu> {
  await using log = await open(options.logFile, "w", 0o600);
  const child = spawnQemu(options, log);
  const ended = endOf(child, options.logFile); // at once: it may end at any time
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
    // A session of its own: Ctrl-C in a terminal does not end machines.
    detached: true,
    stdio: ["ignore", log.fd, log.fd, "pipe", "pipe", state?.fd ?? "ignore"],
  });
}

function endOf(child: ChildProcess, logFile: string): AbortSignal {
  const ended = new AbortController();
  child.once("error", (cause) => ended.abort(didNotRun(cause.message, cause)));
  child.once("exit", (code, signal) => {
    void lastWords(logFile).then((said) =>
      ended.abort(didNotRun(said || `QEMU ended with ${signal ?? `code ${code}`}`)),
    );
  });
  return ended.signal;
}

async function untilServed({ commands, ended }: StartedQemu): Promise<void> {
  // The connection closes a moment before the process has ended and its words can be read.
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

/** The first line that QEMU said, without its name. */
async function lastWords(logFile: string): Promise<string> {
  return firstLine(await readStart(logFile, logBytes)).replace(/^\S*qemu-system-\S+: /, "");
}

function didNotRun(reason: string, cause?: unknown): MachineError {
  return new MachineError("Cannot run QEMU", reason, { cause });
}

function asSocket(stream: unknown): Socket {
  if (stream instanceof Socket) return stream;
  throw new TypeError("Node gave no socket for a pipe");
}

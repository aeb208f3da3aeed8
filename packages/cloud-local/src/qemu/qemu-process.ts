import { spawn } from "node:child_process";
import { once } from "node:events";
import { open, type FileHandle } from "node:fs/promises";
import { Socket } from "node:net";
import { CloudError } from "@kip/cloud";
import { firstLine, readStart } from "../host/file-text.ts";
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
  /** Rejects when QEMU ends, with what it said. */
  readonly end: Promise<never>;
  /** Lets go of it: it runs on. */
  [Symbol.dispose](): void;
}

/**
 * Starts QEMU and returns when it answers; the machine does not run yet.
 *
 * @throws {CloudError} `CLOUD_UNAVAILABLE` with what QEMU said
 */
export async function startQemu(options: StartQemuOptions): Promise<StartedQemu> {
  const log = await open(options.logFile, "w", 0o600);
  try {
    const [file = "", ...rest] = options.program;
    const child = spawn(file, [...rest, ...options.args], {
      cwd: "/",
      // A session of its own: Ctrl-C in a terminal does not end machines.
      detached: true,
      stdio: ["ignore", log.fd, log.fd, "pipe", "pipe", options.state?.fd ?? "ignore"],
    });
    const commands = new QmpSession(asSocket(child.stdio[3]));
    const port = asSocket(child.stdio[4]);
    port.on("error", () => {}); // followed by "close"
    const end = Promise.withResolvers<never>();
    end.promise.catch(() => {}); // its waiters see it
    child.once("error", (cause) => end.reject(didNotStart(cause.message, cause)));
    child.once("exit", (code, signal) => {
      void lastWords(options.logFile).then((said) =>
        end.reject(didNotStart(said || `QEMU ended with ${signal ?? `code ${code}`}`)),
      );
    });
    const started: StartedQemu = {
      commands,
      port,
      end: end.promise,
      [Symbol.dispose]() {
        child.unref();
        commands.close();
        port.destroy();
      },
    };
    try {
      await withinLimit(Promise.race([commands.served, end.promise]), end.promise);
      return started;
    } catch (error) {
      started[Symbol.dispose]();
      if (child.pid !== undefined && child.exitCode === null && child.signalCode === null) {
        child.kill("SIGKILL");
        await once(child, "exit");
      }
      throw error;
    }
  } finally {
    await log.close();
  }
}

/** The connection closes a moment before the process has ended and its words can be read. */
async function withinLimit(served: Promise<void>, end: Promise<never>): Promise<void> {
  const limit = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => limit.reject(didNotStart(`QEMU did not answer within ${startLimitMs / 1000} s`)),
    startLimitMs,
  );
  try {
    await Promise.race([served.catch(async () => await end), limit.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** The first line that QEMU said, without its name. */
async function lastWords(logFile: string): Promise<string> {
  return firstLine(await readStart(logFile, logBytes)).replace(/^\S*qemu-system-\S+: /, "");
}

function didNotStart(reason: string, cause?: unknown): CloudError {
  return new CloudError("CLOUD_UNAVAILABLE", `Cannot run QEMU: ${reason}`, {
    cause,
    facts: { reason },
  });
}

function asSocket(stream: unknown): Socket {
  if (stream instanceof Socket) return stream;
  throw new TypeError("Node gave no socket for a pipe");
}

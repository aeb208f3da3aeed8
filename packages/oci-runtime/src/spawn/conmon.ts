import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, writeFileSync } from "node:fs";
import type { Duplex } from "node:stream";
import { errorText, textBefore, type Clock, type Logger } from "@kip/base";
import type { ContainerSpec } from "../contract/container-spec.ts";
import { RuntimeError } from "../errors.ts";
import { logPaths } from "../logs/log-files.ts";
import { largestFileBytes, type LogLimits } from "../logs/log-limits.ts";
import type { ContainerPaths, RunPaths } from "../run-paths.ts";
import type { CrunProgram } from "./crun-program.ts";

/** The programs and places that a monitor is started with. */
export interface ConmonOptions {
  readonly conmon: string;
  readonly crun: CrunProgram;
  readonly paths: RunPaths;
  /** `cgroup.procs` of the cgroup monitors live in, outside of the agent's; absent where there is none. */
  readonly monitorCgroup: string | undefined;
  readonly logger: Logger;
  readonly clock: Clock;
}

/** Settings of one monitor. */
export interface MonitorLaunch extends Pick<
  ContainerSpec,
  "id" | "logDirectory" | "tty" | "stdin"
> {
  readonly files: ContainerPaths;
  /** Of its log. */
  readonly limits: LogLimits;
}

/**
 * A container's monitor. It is a session of its own and in another cgroup than the agent, so that
 * neither the agent's end nor systemd's `KillMode=control-group` reaches it.
 *
 * Pipes as conmon.8 has them: on `_OCI_STARTPIPE` it waits for a byte, on `_OCI_SYNCPIPE` it tells
 * the container's process ID or what went wrong.
 */
export class Monitor {
  readonly #launch: MonitorLaunch;
  readonly #child: ChildProcess;
  readonly #errors: string[] = [];

  private constructor(launch: MonitorLaunch, child: ChildProcess) {
    this.#launch = launch;
    this.#child = child;
    child.stderr?.setEncoding("utf8").on("data", (text: string) => this.#errors.push(text));
  }

  /**
   * Starts it; it opens its log, then waits. Its folder, the bundle, must be there.
   * @throws {RuntimeError} `CONTAINER_CREATE_FAILED`
   */
  static async start(launch: MonitorLaunch, options: ConmonOptions): Promise<Monitor> {
    const child = spawn(options.conmon, conmonArguments(launch, options), {
      cwd: launch.files.bundle,
      // Nothing of the agent's environment concerns a container; crun gets this one through conmon.
      env: { ...options.crun.env, _OCI_SYNCPIPE: "3", _OCI_STARTPIPE: "4" },
      stdio: ["ignore", "ignore", "pipe", "pipe", "pipe"],
      detached: true,
    });
    const monitor = new Monitor(launch, child);
    try {
      if (child.pid === undefined) await once(child, "spawn");
      leaveCgroup(child, options);
      return monitor;
    } catch (error) {
      monitor.#detach();
      throw createFailed(launch.id, errorText(error), error);
    }
  }

  /**
   * Has crun create the container from its bundle. Resolves when the container waits to be started.
   * @throws {RuntimeError} `CONTAINER_CREATE_FAILED`
   */
  async createContainer(): Promise<void> {
    const start = this.#child.stdio[4] as Duplex; // "pipe" above makes it one
    start.on("error", () => {}); // a conmon that died says why on the other pipe
    start.end("0");
    try {
      await this.#readPid(this.#child.stdio[3] as Duplex);
    } catch (error) {
      if (error instanceof RuntimeError) throw error;
      throw createFailed(this.#launch.id, errorText(error), error);
    } finally {
      this.#detach();
    }
  }

  /** Ends a monitor that has no container yet. */
  kill(): void {
    this.#child.kill("SIGKILL");
    this.#detach();
  }

  #detach(): void {
    const { stderr, stdio } = this.#child;
    for (const stream of [stderr, stdio[3], stdio[4]]) stream?.destroy();
  }

  /** One JSON line: the process ID, or a negative number and a message. */
  async #readPid(pipe: Duplex): Promise<void> {
    const { id, files } = this.#launch;
    pipe.setEncoding("utf8");
    let text = "";
    for await (const chunk of pipe) {
      text += String(chunk);
      if (text.includes("\n")) break;
    }
    const line = textBefore(text, "\n");
    if (line === "")
      throw createFailed(id, this.#errors.join("").trim() || "conmon ended without a word");
    const message = JSON.parse(line) as { data?: number; pid?: number; message?: string };
    if ((message.data ?? message.pid ?? -1) > 0) return;
    const fallback = existsSync(files.pid) ? "the container ended at once" : "crun gave no reason";
    throw createFailed(id, message.message?.trim() || fallback);
  }
}

function conmonArguments(launch: MonitorLaunch, options: ConmonOptions): readonly string[] {
  const { id, files, logDirectory, limits, tty, stdin } = launch;
  return [
    `--cid=${id}`,
    `--cuuid=${id}`,
    `--bundle=${files.bundle}`,
    `--runtime=${options.crun.path}`,
    ...runtimeArguments(options.paths).map((argument) => `--runtime-arg=${argument}`),
    `--container-pidfile=${files.pid}`,
    `--conmon-pidfile=${files.monitorPid}`,
    `--exit-dir=${options.paths.exits}`,
    `--persist-dir=${files.bundle}`,
    // The attach socket goes into the bundle, however long its path is.
    "--full-attach",
    `--log-path=k8s-file:${logPaths(logDirectory).current}`,
    `--log-size-max=${largestFileBytes(limits)}`,
    "--log-level=error",
    // Waiting for the disk at each container's end would delay the report of it.
    "--no-sync-log",
    ...(tty ? ["--terminal"] : []),
    ...(stdin === "closed" ? [] : ["--stdin"]),
    ...(stdin === "open" ? ["--leave-stdin-open"] : []),
  ];
}

/** Arguments of every call of crun. */
export function runtimeArguments(paths: RunPaths): readonly string[] {
  return [`--root=${paths.crunRoot}`, "--cgroup-manager=cgroupfs"];
}

function leaveCgroup(child: ChildProcess, options: ConmonOptions): void {
  if (options.monitorCgroup === undefined) return;
  try {
    writeFileSync(options.monitorCgroup, String(child.pid));
  } catch (error) {
    options.logger.warn("Could not move a container's monitor out of the agent's cgroup", {
      err: error,
    });
  }
}

function createFailed(id: string, reason: string, cause?: unknown): RuntimeError {
  return new RuntimeError("CONTAINER_CREATE_FAILED", `Cannot create container "${id}": ${reason}`, {
    cause,
    remedy: "Check the container's command, working directory, user and mounts.",
  });
}

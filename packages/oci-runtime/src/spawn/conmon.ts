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

/** Programs and folders for starting a monitor. */
export interface ConmonOptions {
  readonly conmon: string;
  readonly crun: CrunProgram;
  readonly paths: RunPaths;
  /** `cgroup.procs` of the monitors' cgroup, which is not the agent's. Absent if there is none. */
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
  /** Limits of its log. */
  readonly limits: LogLimits;
}

/**
 * A container's monitor. It has its own session and another cgroup than the agent. So neither the agent's end nor systemd's
 * `KillMode=control-group` ends it.
 *
 * Pipes as in conmon(8): it waits for a byte on `_OCI_STARTPIPE`, and writes the container's process ID or an error to
 * `_OCI_SYNCPIPE`.
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
   * Starts a monitor, which opens its log and then waits. Its folder, the bundle, must exist.
   *
   * @throws {RuntimeError} `CONTAINER_CREATE_FAILED`
   */
  static async start(launch: MonitorLaunch, options: ConmonOptions): Promise<Monitor> {
    const child = spawn(options.conmon, conmonArguments(launch, options), {
      cwd: launch.files.bundle,
      // The agent's environment is not passed on. crun gets this one through conmon.
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
   * Makes crun create the container from its bundle. Resolves when the container is ready to be started.
   *
   * @throws {RuntimeError} `CONTAINER_CREATE_FAILED`
   */
  async createContainer(): Promise<void> {
    const start = this.#child.stdio[4] as Duplex; // because of "pipe" above
    start.on("error", () => {}); // if conmon has died, the other pipe has the reason
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

  /** Ends a monitor without a container. */
  kill(): void {
    this.#child.kill("SIGKILL");
    this.#detach();
  }

  #detach(): void {
    const { stderr, stdio } = this.#child;
    for (const stream of [stderr, stdio[3], stdio[4]]) stream?.destroy();
  }

  /** Reads one JSON line: the process ID, or a negative number and a message. */
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
    // Puts the attach socket into the bundle, however long its path is.
    "--full-attach",
    `--log-path=k8s-file:${logPaths(logDirectory).current}`,
    `--log-size-max=${largestFileBytes(limits)}`,
    "--log-level=error",
    // Syncing the log to the disk would delay the report of each container's end.
    "--no-sync-log",
    ...(tty ? ["--terminal"] : []),
    ...(stdin === "closed" ? [] : ["--stdin"]),
    ...(stdin === "open" ? ["--leave-stdin-open"] : []),
  ];
}

/** Arguments for all calls of crun. */
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

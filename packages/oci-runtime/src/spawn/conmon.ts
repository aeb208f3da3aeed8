import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import type { Duplex } from "node:stream";
import { errorText, KipError, type Logger } from "@kip/base";
import type { ContainerSpec } from "../container-spec.ts";
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
}

/**
 * Starts a container's monitor, which has crun create the container. Resolves when the container
 * waits to be started. The monitor is a session of its own and in another cgroup than the agent,
 * so that neither the agent's end nor systemd's `KillMode=control-group` reaches it.
 *
 * Pipes as conmon.8 has them: on `_OCI_STARTPIPE` it waits for a byte, on `_OCI_SYNCPIPE` it tells
 * the container's process ID or what went wrong.
 * @throws {KipError} `CONTAINER_CREATE_FAILED`
 */
export async function startMonitor(
  spec: ContainerSpec,
  files: ContainerPaths,
  options: ConmonOptions,
): Promise<number> {
  const child = spawn(options.conmon, conmonArguments(spec, files, options), {
    cwd: files.bundle,
    // Nothing of the agent's environment concerns a container; crun gets this one through conmon.
    env: { ...options.crun.env, _OCI_SYNCPIPE: "3", _OCI_STARTPIPE: "4" },
    stdio: ["ignore", "ignore", "pipe", "pipe", "pipe"],
    detached: true,
  });
  const errors: string[] = [];
  child.stderr?.setEncoding("utf8").on("data", (text: string) => errors.push(text));
  try {
    if (child.pid === undefined) await once(child, "spawn");
    leaveCgroup(child, options);
    const start = child.stdio[4] as Duplex; // "pipe" above makes it one
    start.on("error", () => {}); // a conmon that died says why on the other pipe
    start.end("0");
    return await readPid(spec, child.stdio[3] as Duplex, errors, files);
  } catch (error) {
    if (error instanceof KipError) throw error;
    throw createFailed(spec, errorText(error), error);
  } finally {
    for (const stream of [child.stderr, child.stdio[3], child.stdio[4]]) stream?.destroy();
  }
}

function conmonArguments(
  spec: ContainerSpec,
  files: ContainerPaths,
  options: ConmonOptions,
): readonly string[] {
  return [
    `--cid=${spec.id}`,
    `--cuuid=${spec.id}`,
    `--bundle=${files.bundle}`,
    `--runtime=${options.crun.path}`,
    ...runtimeArguments(options.paths).map((argument) => `--runtime-arg=${argument}`),
    `--container-pidfile=${files.pid}`,
    `--conmon-pidfile=${files.monitorPid}`,
    `--exit-dir=${options.paths.exits}`,
    `--persist-dir=${files.bundle}`,
    // The attach socket goes into the bundle, however long its path is.
    "--full-attach",
    `--log-path=k8s-file:${spec.logPath}`,
    "--log-level=error",
    // Waiting for the disk at each container's end would delay what is told of it.
    "--no-sync-log",
    ...(spec.tty ? ["--terminal"] : []),
    ...(spec.stdin === "closed" ? [] : ["--stdin"]),
    ...(spec.stdin === "open" ? ["--leave-stdin-open"] : []),
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
    options.logger.warn("could not move a container's monitor out of the agent's cgroup", {
      err: error,
    });
  }
}

/** One JSON line: the process ID, or a negative number and a message. */
async function readPid(
  spec: ContainerSpec,
  pipe: Duplex,
  errors: readonly string[],
  files: ContainerPaths,
): Promise<number> {
  pipe.setEncoding("utf8");
  let text = "";
  for await (const chunk of pipe) {
    text += String(chunk);
    if (text.includes("\n")) break;
  }
  const line = text.split("\n", 1)[0] ?? "";
  if (line === "") {
    throw createFailed(spec, errors.join("").trim() || "conmon ended without a word");
  }
  const message = JSON.parse(line) as { data?: number; pid?: number; message?: string };
  const pid = message.data ?? message.pid ?? -1;
  if (pid > 0) return pid;
  const fallback = await readFile(files.pid, "utf8").then(
    () => "the container ended at once",
    () => "crun gave no reason",
  );
  throw createFailed(spec, message.message?.trim() || fallback);
}

function createFailed(spec: ContainerSpec, reason: string, cause?: unknown): KipError {
  return new KipError(
    "CONTAINER_CREATE_FAILED",
    `Cannot create container "${spec.id}": ${reason}`,
    {
      cause,
      remedy: "Check the container's command, working directory, user and mounts.",
      facts: { reason },
    },
  );
}

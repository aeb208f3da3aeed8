import path from "node:path";
import { RuntimeError } from "./errors.ts";

/** Paths of all files below the runtime's run directory. */
export interface RunPaths {
  /** crun's own state. */
  readonly crunRoot: string;
  /** When a container ends, conmon creates a file here, named after the container. */
  readonly exits: string;
  /** One folder per container, with its bundle and Kip's record of it. */
  readonly containers: string;
  /** Files of running execs. */
  readonly execs: string;
  /** Named pipes that are ready for use. */
  readonly pipes: string;
  /** The protected copy of crun, see crun-program.ts. */
  readonly programs: string;
}

/** Paths of one container's files. */
export interface ContainerPaths {
  /** The OCI bundle. It also contains conmon's attach socket and control pipe. */
  readonly bundle: string;
  readonly config: string;
  readonly record: string;
  readonly started: string;
  readonly pid: string;
  readonly monitorPid: string;
  readonly attachSocket: string;
  readonly control: string;
  readonly oom: string;
  /** Exists if the container's end was not observed. */
  readonly lost: string;
  readonly exit: string;
}

export function runPaths(runDir: string): RunPaths {
  return {
    crunRoot: path.join(runDir, "crun"),
    exits: path.join(runDir, "exits"),
    containers: path.join(runDir, "containers"),
    execs: path.join(runDir, "execs"),
    pipes: path.join(runDir, "pipes"),
    programs: path.join(runDir, "programs"),
  };
}

/** @throws {RangeError} for an ID that crun does not accept as a file name */
export function containerPaths(paths: RunPaths, id: string): ContainerPaths {
  if (!isContainerId(id)) throw new RangeError(`Not a container ID: "${id}"`);
  const bundle = path.join(paths.containers, id);
  return {
    bundle,
    config: path.join(bundle, "config.json"),
    record: path.join(bundle, "container.json"),
    started: path.join(bundle, "started"),
    pid: path.join(bundle, "pid"),
    monitorPid: path.join(bundle, "conmon.pid"),
    attachSocket: path.join(bundle, "attach"),
    control: path.join(bundle, "ctl"),
    oom: path.join(bundle, "oom"),
    lost: path.join(bundle, "lost"),
    exit: path.join(paths.exits, id),
  };
}

export function isContainerId(id: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/.test(id);
}

export function notFound(id: string): RuntimeError {
  return new RuntimeError(
    "CONTAINER_NOT_FOUND",
    `Cannot find container "${id}": it was never created or is removed`,
  );
}

import type { Readable } from "node:stream";
import type { ProcessStreams } from "@kip/base";
import type { CgroupUsage } from "./cgroup-usage.ts";
import type { ContainerResources, ContainerSpec, ContainerUser } from "./container-spec.ts";
import type { PodSandbox } from "./pod-sandbox.ts";
import type { LogReadOptions } from "../logs/read-log.ts";

/** How a container ended. */
export interface ContainerExit {
  readonly id: string;
  /** 0 to 255. 128 + n if signal n ended it. 255 with `lost` if the end was not observed. */
  readonly exitCode: number;
  /** Whether the kernel killed one of its processes for lack of memory. */
  readonly oomKilled: boolean;
  /** Milliseconds since the epoch. */
  readonly finishedAtMs: number;
  /** Whether the monitor process was gone, so that the exit code is unknown. */
  readonly lost: boolean;
}

/** The present state of a container. */
export interface ContainerState {
  readonly id: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly status: "created" | "running" | "exited";
  /** Process ID of the container's first process. Absent once it has exited. */
  readonly pid?: number | undefined;
  readonly logDirectory: string;
  readonly createdAtMs: number;
  readonly startedAtMs?: number | undefined;
  /** Present once it has exited. */
  readonly exit?: ContainerExit | undefined;
}

/** An additional process to run in a container. */
export interface ExecOptions {
  readonly command: readonly string[];
  /** Added to the container's environment, `NAME=value`. */
  readonly env?: readonly string[] | undefined;
  /** @default the container's user */
  readonly user?: ContainerUser | undefined;
  /** @default the container's working directory */
  readonly cwd?: string | undefined;
  /** Whether it starts at once. Otherwise, only few commands may be starting at the same time. @default false */
  readonly isUrgent?: boolean | undefined;
  /** Called when the process has started. */
  readonly onBegun?: (() => void) | undefined;
}

/** How a process ended: 0 to 255, or 128 + n if signal n ended it. */
export interface ExecResult {
  readonly exitCode: number;
}

/** Resource usage of a container. */
export interface ContainerStats extends CgroupUsage {
  /** ID of its first process in the machine's PID namespace. Undefined if unknown. */
  readonly pid?: number | undefined;
}

/**
 * Runs containers with crun and conmon. Containers keep running when the runtime object or its process ends. The next runtime
 * takes them over.
 *
 * Calls for one container must be serial, except `kill`, `exec`, `attach`, `logs` and `stats`. An unknown ID throws
 * `RuntimeError` `CONTAINER_NOT_FOUND`, unless stated otherwise.
 */
export interface ContainerRuntime extends AsyncDisposable {
  /**
   * Starts a monitor in advance for a container without terminal and input. Creating that container then takes a third less
   * time. Resolves when the monitor is ready.
   *
   * @param logs directory on the file system of the container's log. Created if missing
   */
  prepare(logs: string): Promise<void>;
  /** The ID that a container must have to use the prepared monitor. Returned once. Undefined if no monitor is ready. */
  takePreparedId(): string | undefined;
  /**
   * Creates the container: namespaces, cgroup and mounts. Its process then waits for the start. Removes everything after a
   * failure.
   *
   * @throws {RuntimeError} `CONTAINER_CREATE_FAILED`, with crun's message
   */
  create(spec: ContainerSpec): Promise<void>;
  /** Starts the container's process. @throws {RuntimeError} `CONTAINER_START_FAILED` */
  start(id: string): Promise<void>;
  /**
   * Sends a signal (`SIGTERM`) to the container's main process, or with `all` to every process in it. Does nothing if the
   * container has exited.
   */
  kill(id: string, signal: string, all?: boolean): Promise<void>;
  /**
   * Kills the container if it is running, and frees everything except its log and root file system. Does nothing for an unknown
   * ID.
   */
  remove(id: string): Promise<void>;
  /** All containers that were not removed, including those of earlier runs of the agent. */
  list(): Promise<readonly ContainerState[]>;
  /**
   * Calls back for each exit that is noticed from now on, including containers of earlier runs. First register, then call
   * {@link ContainerRuntime.list}: no exit is missed, but one may be seen in both.
   *
   * @returns a function that unsubscribes
   */
  onExit(callback: (exit: ContainerExit) => void): () => void;
  /**
   * Runs a process in the container, connected to the streams. Resolves when it has ended and its output is written. If
   * `signal` aborts, kills the process and rejects with the signal's reason.
   *
   * @throws {RuntimeError} `EXEC_FAILED` if it cannot be started (unknown command, container not running).
   * {@link RuntimeError.execFailure} has the reason
   */
  exec(
    id: string,
    options: ExecOptions,
    streams: ProcessStreams,
    signal: AbortSignal,
  ): Promise<ExecResult>;
  /**
   * Connects to the container's main process: output from now on, and input if the container has it. Resolves with its exit
   * code when it ends. Rejects with the signal's reason on abort.
   *
   * @throws {RuntimeError} `EXEC_FAILED` if it has ended, as containerd does. `kubectl run -it` then shows the log instead
   */
  attach(id: string, streams: ProcessStreams, signal: AbortSignal): Promise<ExecResult>;
  /**
   * Reads the log in a directory. With `follow`, ends after the container's last line. A removed or unknown container counts as
   * ended, so that the log of an earlier attempt can be read.
   */
  logs(id: string, logDirectory: string, options: LogReadOptions, signal: AbortSignal): Readable;
  /**
   * A container's present resource usage.
   *
   * @throws a system error if it has ended
   */
  stats(id: string): Promise<ContainerStats>;
  /** Resource usage of all containers of a sandbox together. Undefined if unknown. */
  podStats(sandbox: Pick<PodSandbox, "cgroupParent">): CgroupUsage | undefined;
  /**
   * Changes a container's limits. They are in force when this returns.
   *
   * @throws {RuntimeError} `CONTAINER_RESIZE_FAILED`
   */
  resize(id: string, resources: ContainerResources): Promise<void>;
  /**
   * Limits all containers of a sandbox together. May be called before the first one is created. The weight is that of the pod.
   *
   * @throws {RuntimeError} `CONTAINER_RESIZE_FAILED`
   */
  limitPod(sandbox: Pick<PodSandbox, "cgroupParent">, resources: ContainerResources): void;
  /** Memory usage of all containers of a sandbox together, bytes. Undefined if unknown. */
  podMemoryUsage(sandbox: Pick<PodSandbox, "cgroupParent">): number | undefined;
}

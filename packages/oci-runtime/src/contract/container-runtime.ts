import type { Readable } from "node:stream";
import type { ProcessStreams } from "@kip/base";
import type { CgroupUsage } from "./cgroup-usage.ts";
import type { ContainerResources, ContainerSpec, ContainerUser } from "./container-spec.ts";
import type { PodSandbox } from "./pod-sandbox.ts";
import type { LogReadOptions } from "../logs/read-log.ts";

/** How a container ended. */
export interface ContainerExit {
  readonly id: string;
  /** 0 to 255; 128 + n when signal n ended it. 255 with `lost` when the end was not seen. */
  readonly exitCode: number;
  /** Whether the kernel killed a process of it for lack of memory. */
  readonly oomKilled: boolean;
  /** Milliseconds since the epoch. */
  readonly finishedAtMs: number;
  /** The monitor process was gone, so the exit code is not known. */
  readonly lost: boolean;
}

/** A container as it is now. */
export interface ContainerState {
  readonly id: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly status: "created" | "running" | "exited";
  /** Process ID of the container's first process; absent once exited. */
  readonly pid?: number | undefined;
  readonly logDirectory: string;
  readonly createdAtMs: number;
  readonly startedAtMs?: number | undefined;
  /** Present when exited. */
  readonly exit?: ContainerExit | undefined;
}

/** A process to run in a container besides its main one. */
export interface ExecOptions {
  readonly command: readonly string[];
  /** Added to the container's environment, `NAME=value`. */
  readonly env?: readonly string[] | undefined;
  /** @default the container's user */
  readonly user?: ContainerUser | undefined;
  /** @default the container's working directory */
  readonly cwd?: string | undefined;
  /** Whether it begins at once, however many others do; else few begin at the same time. @default false */
  readonly isUrgent?: boolean | undefined;
  /** Called when the process has begun. */
  readonly onBegun?: (() => void) | undefined;
}

/** How a process ended: 0 to 255; 128 + n when signal n ended it. */
export interface ExecResult {
  readonly exitCode: number;
}

/** What a container uses. */
export interface ContainerStats extends CgroupUsage {
  /** Process ID of its first process, as the machine has it; undefined where that is not known. */
  readonly pid?: number | undefined;
}

/**
 * Runs containers with crun and conmon. Containers live on when the runtime object or its process
 * ends; the next one finds them again.
 *
 * Calls for one container must be serial, except `kill`, `exec`, `attach`, `logs` and `stats`.
 * An unknown ID throws `RuntimeError` `CONTAINER_NOT_FOUND`, unless said otherwise.
 */
export interface ContainerRuntime extends AsyncDisposable {
  /**
   * Has a monitor wait for a container without terminal and input, whose creation takes a third less
   * then. Resolves when it waits.
   * @param logs directory on the file system of the container's log; made if missing
   */
  prepare(logs: string): Promise<void>;
  /** The ID that the container must be created with for that, once; undefined if no monitor waits. */
  takePreparedId(): string | undefined;
  /**
   * Makes the container: namespaces, cgroup and mounts, its process waiting to start. After a
   * failure nothing of it is left.
   * @throws {RuntimeError} `CONTAINER_CREATE_FAILED`: the message says what crun said
   */
  create(spec: ContainerSpec): Promise<void>;
  /** Lets the container's process begin. @throws {RuntimeError} `CONTAINER_START_FAILED` */
  start(id: string): Promise<void>;
  /**
   * Sends a signal (`SIGTERM`) to the container's main process, or with `all` to every process in
   * it. Does nothing when the container has exited.
   */
  kill(id: string, signal: string, all?: boolean): Promise<void>;
  /**
   * Kills the container if it runs and frees all it had except its log and root file system.
   * Does nothing for an ID that does not exist.
   */
  remove(id: string): Promise<void>;
  /** All containers that are not removed, those of earlier lives of the agent too. */
  list(): Promise<readonly ContainerState[]>;
  /**
   * Calls back for each exit noticed from now on, of containers of earlier lives too. Register
   * first, then {@link ContainerRuntime.list}: nothing is missed, an exit may be seen in both.
   * @returns stops the calls
   */
  onExit(callback: (exit: ContainerExit) => void): () => void;
  /**
   * Runs a process in the container, connected to the streams. Resolves when it has ended and its
   * output is written. An abort of `signal` kills it and rejects with the signal's reason.
   * @throws {RuntimeError} `EXEC_FAILED` when it cannot be started (no such command, container not running);
   * {@link RuntimeError.execFailure} says which
   */
  exec(
    id: string,
    options: ExecOptions,
    streams: ProcessStreams,
    signal: AbortSignal,
  ): Promise<ExecResult>;
  /**
   * Connects to the container's main process: output from now on, input if the container has it.
   * Resolves with its exit code when it ends; rejects with the signal's reason on abort.
   */
  attach(id: string, streams: ProcessStreams, signal: AbortSignal): Promise<ExecResult>;
  /**
   * Reads the log in a directory. With `follow` it ends after the container's last line; a container
   * that is removed or unknown counts as ended, so that the log of an earlier attempt can be read.
   */
  logs(id: string, logDirectory: string, options: LogReadOptions, signal: AbortSignal): Readable;
  /**
   * What a container uses now.
   * @throws Error of the system where it has ended
   */
  stats(id: string): Promise<ContainerStats>;
  /** What all containers of a sandbox use together; undefined if that is not known. */
  podStats(sandbox: Pick<PodSandbox, "cgroupParent">): CgroupUsage | undefined;
  /**
   * Gives a container other limits, which hold when this returns.
   * @throws {RuntimeError} `CONTAINER_RESIZE_FAILED`
   */
  resize(id: string, resources: ContainerResources): Promise<void>;
  /**
   * Limits all containers of a sandbox together, also before the first is created. The weight is that of the pod.
   * @throws {RuntimeError} `CONTAINER_RESIZE_FAILED`
   */
  limitPod(sandbox: Pick<PodSandbox, "cgroupParent">, resources: ContainerResources): void;
  /** Memory that the containers of a sandbox use together, bytes; undefined if that is not known. */
  podMemoryUsage(sandbox: Pick<PodSandbox, "cgroupParent">): number | undefined;
}

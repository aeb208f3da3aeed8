import { randomBytes } from "node:crypto";
import { once } from "node:events";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  watch,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { withTimeout } from "@kip/base";
import type { ContainerSpec } from "../contract/container-spec.ts";
import { logPaths } from "../logs/log-files.ts";
import { defaultLogLimits, largestFileBytes } from "../logs/log-limits.ts";
import { settleLog } from "../logs/settle-log.ts";
import { containerPaths, type ContainerPaths } from "../run-paths.ts";
import { Monitor, type ConmonOptions } from "./conmon.ts";

/** How long conmon may take to open its log, milliseconds. It usually needs some hundredths of that. */
const startLimitMs = 10_000;

/** Marks the directory of a log that has no container yet. */
const mark = "waiting";

/**
 * A monitor that is started before its container. Starting it takes a third of a container's creation. A monitor gets its
 * container's name at its start, so the container must use this ID. If the agent ends, the monitor also ends, because it has
 * nothing to create.
 */
export class WaitingMonitor {
  readonly id: string;
  readonly #monitor: Monitor;
  readonly #files: ContainerPaths;
  readonly #logDirectory: string;

  private constructor(id: string, monitor: Monitor, files: ContainerPaths, logDirectory: string) {
    this.id = id;
    this.#monitor = monitor;
    this.#files = files;
    this.#logDirectory = logDirectory;
  }

  /**
   * Resolves when the monitor is ready.
   *
   * @param logs folder on the same file system as the future container's log
   * @throws {RuntimeError} `CONTAINER_CREATE_FAILED`
   */
  static async begin(logs: string, options: ConmonOptions): Promise<WaitingMonitor> {
    const id = randomBytes(16).toString("hex");
    const files = containerPaths(options.paths, id);
    const logDirectory = path.join(logs, id);
    const { current } = logPaths(logDirectory);
    removeAbandoned(logs);
    mkdirSync(logDirectory, { recursive: true });
    writeFileSync(path.join(logDirectory, mark), "");
    mkdirSync(files.bundle, { mode: 0o700 });
    const how = { limits: defaultLogLimits, tty: false, stdin: "closed" } as const;
    const launch = { id, files, logDirectory, ...how };
    const opened = new AbortController();
    const watcher = watch(logDirectory, { signal: opened.signal });
    let monitor: Monitor | undefined;
    try {
      monitor = await Monitor.start(launch, options);
      // Opening its log is the last step of its start.
      const limit = { limitMs: startLimitMs, clock: options.clock };
      await withTimeout(async (signal) => {
        while (!existsSync(current)) await once(watcher, "change", { signal });
      }, limit);
      await settleLog(logDirectory);
      return new WaitingMonitor(id, monitor, files, logDirectory);
    } catch (error) {
      monitor?.kill();
      for (const folder of [files.bundle, logDirectory])
        rmSync(folder, { recursive: true, force: true });
      throw error;
    } finally {
      opened.abort();
    }
  }

  /** Whether it can monitor this container. */
  fits(spec: ContainerSpec): boolean {
    const limits = spec.logLimits ?? defaultLogLimits;
    return (
      spec.id === this.id &&
      !spec.tty &&
      spec.stdin === "closed" &&
      largestFileBytes(limits) === largestFileBytes(defaultLogLimits)
    );
  }

  /** Returns the monitor and moves its log to the container's path, which conmon uses from then on. Call it once. */
  take(logDirectory: string): Monitor {
    rmSync(path.join(this.#logDirectory, mark), { force: true });
    rmSync(logDirectory, { recursive: true, force: true });
    mkdirSync(path.dirname(logDirectory), { recursive: true });
    renameSync(this.#logDirectory, logDirectory);
    symlinkSync(logDirectory, this.#logDirectory);
    return this.#monitor;
  }

  /** Ends it. */
  abandon(): void {
    this.#monitor.kill();
    for (const folder of [this.#files.bundle, this.#logDirectory])
      rmSync(folder, { recursive: true, force: true });
  }
}

/** Removes the logs of monitors that ended with their agent before they got a container. */
function removeAbandoned(logs: string): void {
  for (const name of existsSync(logs) ? readdirSync(logs) : [])
    if (existsSync(path.join(logs, name, mark)))
      rmSync(path.join(logs, name), { recursive: true, force: true });
}

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

/** conmon gets as long to open its log (milliseconds); it needs some hundredths of that. */
const startLimitMs = 10_000;

/** A file in the directory of a log that has no container yet. */
const mark = "waiting";

/**
 * A monitor for a container to come: it has started, which is a third of what a container's creation
 * takes, and waits. A monitor gets the name of its container when it starts, so the container must
 * take that ID. When the agent dies it ends by itself, as there is nothing that it could create.
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
   * Resolves when it waits.
   * @param logs on the file system of the log that its container will have
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
      // Its log is the last thing that it opens.
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

  /** Whether it can watch over this container. */
  fits(spec: ContainerSpec): boolean {
    const limits = spec.logLimits ?? defaultLogLimits;
    return (
      spec.id === this.id &&
      !spec.tty &&
      spec.stdin === "closed" &&
      largestFileBytes(limits) === largestFileBytes(defaultLogLimits)
    );
  }

  /** The monitor, its log where the container's is to be: conmon goes on to use the path that it has. To be called once. */
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

/** Removes the logs of monitors that ended with their agent, before they had a container. */
function removeAbandoned(logs: string): void {
  for (const name of existsSync(logs) ? readdirSync(logs) : [])
    if (existsSync(path.join(logs, name, mark)))
      rmSync(path.join(logs, name), { recursive: true, force: true });
}

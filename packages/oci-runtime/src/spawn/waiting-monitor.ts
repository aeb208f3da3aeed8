import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdirSync, renameSync, rmSync, watch } from "node:fs";
import path from "node:path";
import { withTimeout } from "@kip/base";
import type { ContainerSpec } from "../contract/container-spec.ts";
import { containerPaths, type ContainerPaths } from "../run-paths.ts";
import { Monitor, type ConmonOptions } from "./conmon.ts";

/** conmon gets as long to open its log (milliseconds); it needs some hundredths of that. */
const startLimitMs = 10_000;

/**
 * A monitor for a container to come: it has started, which is a third of what a container's creation
 * takes, and waits. A monitor gets the name of its container when it starts, so the container must
 * take that ID. When the agent dies it ends by itself, as there is nothing that it could create.
 */
export class WaitingMonitor {
  readonly id: string;
  readonly #monitor: Monitor;
  readonly #files: ContainerPaths;
  readonly #logPath: string;

  private constructor(id: string, monitor: Monitor, files: ContainerPaths, logPath: string) {
    this.id = id;
    this.#monitor = monitor;
    this.#files = files;
    this.#logPath = logPath;
  }

  /**
   * Resolves when it waits.
   * @param logDir on the file system of the log that its container will have
   * @throws {RuntimeError} `CONTAINER_CREATE_FAILED`
   */
  static async begin(logDir: string, options: ConmonOptions): Promise<WaitingMonitor> {
    const id = randomBytes(16).toString("hex");
    const files = containerPaths(options.paths, id);
    const logPath = path.join(logDir, ".next.log");
    mkdirSync(logDir, { recursive: true });
    rmSync(logPath, { force: true }); // of an earlier life
    mkdirSync(files.bundle, { mode: 0o700 });
    const launch = { id, files, logPath, tty: false, stdin: "closed" } as const;
    const opened = new AbortController();
    const watcher = watch(logDir, { signal: opened.signal });
    let monitor: Monitor | undefined;
    try {
      monitor = await Monitor.start(launch, options);
      // Its log is the last thing that it opens.
      const limit = { limitMs: startLimitMs, clock: options.clock };
      await withTimeout(async (signal) => {
        while (!existsSync(logPath)) await once(watcher, "change", { signal });
      }, limit);
      return new WaitingMonitor(id, monitor, files, logPath);
    } catch (error) {
      monitor?.kill();
      rmSync(files.bundle, { recursive: true, force: true });
      throw error;
    } finally {
      opened.abort();
    }
  }

  /** Whether it can watch over this container. */
  fits(spec: ContainerSpec): boolean {
    return spec.id === this.id && !spec.tty && spec.stdin === "closed";
  }

  /** The monitor, its log where the container's is to be. To be called once. */
  take(logPath: string): Monitor {
    renameSync(this.#logPath, logPath);
    return this.#monitor;
  }

  /** Ends it. */
  abandon(): void {
    this.#monitor.kill();
    rmSync(this.#files.bundle, { recursive: true, force: true });
    rmSync(this.#logPath, { force: true });
  }
}

import { access, readFile, readdir, rename, stat, writeFile } from "node:fs/promises";
import { isSystemError, untilAborted, watchOrPoll, type Logger } from "@kip/base";
import type { ContainerExit } from "../contract/container-runtime.ts";
import { containerPaths, isContainerId, type RunPaths } from "../run-paths.ts";
import { wasOomKilled } from "../stats/cgroup.ts";
import { readRecord } from "./container-record.ts";

/** Interval of looking for ends whose event was lost or which could not be read, milliseconds. */
const usualRecheckMs = 10_000;

/**
 * Reports the ends of containers, using the files that conmon renames into its exit directory. Also works for containers of
 * earlier runs, because their monitors use the same directory.
 */
export class ExitWatcher implements Disposable {
  readonly #paths: RunPaths;
  readonly #logger: Logger;
  readonly #watcher: Disposable;
  readonly #reported = new Set<string>();
  readonly #listeners = new Set<(exit: ContainerExit) => void>();

  private constructor(paths: RunPaths, logger: Logger, recheckMs: number) {
    this.#paths = paths;
    this.#logger = logger;
    const onChange = (name: string | undefined): void => {
      void (name === undefined ? this.#noticeAll() : this.#notice(name));
    };
    this.#watcher = watchOrPoll(paths.exits, onChange, { recheckMs });
  }

  /** Starts watching. Ends that are already recorded are not reported. */
  static async open(
    paths: RunPaths,
    logger: Logger,
    recheckMs = usualRecheckMs,
  ): Promise<ExitWatcher> {
    const watcher = new ExitWatcher(paths, logger, recheckMs);
    for (const name of await readdir(paths.exits)) watcher.#reported.add(name);
    return watcher;
  }

  /** Calls back for each end that is noticed from now on. @returns a function that unsubscribes */
  subscribe(listener: (exit: ContainerExit) => void): () => void {
    const own = (exit: ContainerExit): void => listener(exit);
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }

  /** Resolves when the container has ended. Resolves at once if it already has or is unknown. */
  async ended(id: string, signal: AbortSignal): Promise<ContainerExit | undefined> {
    signal.throwIfAborted();
    const { promise, resolve } = Promise.withResolvers<ContainerExit | undefined>();
    // First subscribe, then check, because the end may come in between.
    const unsubscribe = this.subscribe((exit) => {
      if (exit.id === id) resolve(exit);
    });
    try {
      const files = containerPaths(this.#paths, id);
      const isKnown = await exists(files.record);
      const exit = await readExit(this.#paths, id);
      if (exit ?? !isKnown) resolve(exit);
      return await untilAborted(promise, signal);
    } finally {
      unsubscribe();
    }
  }

  /** Call this for a removed container, whose ID may be used again. */
  forget(id: string): void {
    this.#reported.delete(id);
  }

  [Symbol.dispose](): void {
    this.#watcher[Symbol.dispose]();
    this.#listeners.clear();
  }

  async #noticeAll(): Promise<void> {
    try {
      for (const name of await readdir(this.#paths.exits)) await this.#notice(name);
    } catch (error) {
      this.#logger.error("Could not look for containers' ends", { err: error });
    }
  }

  async #notice(name: string): Promise<void> {
    if (!isContainerId(name) || this.#reported.has(name)) return;
    try {
      // conmon first writes `<id>.<six characters>` and renames it. No container has such a name.
      if (!(await exists(containerPaths(this.#paths, name).record))) return;
      const exit = await readExit(this.#paths, name);
      if (!exit || this.#reported.has(name)) return;
      this.#reported.add(name);
      for (const listener of this.#listeners) listener(exit);
    } catch (error) {
      this.#logger.error("Could not read how a container ended", { container: name, err: error });
    }
  }
}

/** How a container ended. Undefined if it has not ended, or if its end was not recorded. */
export async function readExit(paths: RunPaths, id: string): Promise<ContainerExit | undefined> {
  const files = containerPaths(paths, id);
  try {
    const [text, info] = await Promise.all([readFile(files.exit, "utf8"), stat(files.exit)]);
    if (!/^\d+\s*$/.test(text)) return undefined;
    return {
      id,
      exitCode: Number(text),
      oomKilled: await sawOom(paths, id),
      finishedAtMs: info.mtimeMs,
      lost: await exists(files.lost),
    };
  } catch (error) {
    if (isSystemError(error, "ENOENT")) return undefined;
    throw error;
  }
}

/** conmon's record may come late, and the kernel's counter disappears with the cgroup. Either is sufficient. */
async function sawOom(paths: RunPaths, id: string): Promise<boolean> {
  const files = containerPaths(paths, id);
  if (await exists(files.oom)) return true;
  const record = await readRecord(files, id).catch(() => undefined);
  return record !== undefined && (await wasOomKilled(record.cgroup));
}

/**
 * Records an end that was not observed, in conmon's format.
 *
 * @see ContainerExit.lost
 */
export async function writeLostExit(paths: RunPaths, id: string): Promise<void> {
  const files = containerPaths(paths, id);
  await writeFile(files.lost, "");
  await writeFile(`${files.lost}.exit`, "255");
  await rename(`${files.lost}.exit`, files.exit);
}

async function exists(file: string): Promise<boolean> {
  return await access(file).then(
    () => true,
    () => false,
  );
}

import { createWriteStream } from "node:fs";
import { mkdir, readdir, rename, rm } from "node:fs/promises";
import path from "node:path";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { errorText, KipError, type Logger } from "@kip/base";
import type { AgentClient, PodReport } from "@kip/agent-api";
import type { LogOptions } from "@kip/virtual-kubelet";
import { readSavedLog } from "./read-saved-log.ts";

/** Most that is kept of the end of one container's log, bytes; the kubelet's default for a log file. */
const maxLogBytes = 10 * 1024 * 1024;

/** Names of folders and files come from cells and from the disk: nothing else is ever touched. */
const uidShape = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i;
const containerShape = /^[a-z\d][-a-z\d]{0,62}$/;

/**
 * Logs of pods that have finished, whose cells are gone: `kubectl logs` still shows them until the
 * pod's object is deleted. Files `<root>/<pod UID>/<container>.log`, one line each with its time first.
 */
export class LogArchive {
  readonly #root: string;
  readonly #logger: Logger;

  constructor(root: string, logger: Logger) {
    this.#root = root;
    this.#logger = logger;
  }

  /**
   * Fetches the logs of all containers that ran. One that cannot be fetched or written is left out, with a warning.
   *
   * @throws {KipError} code `LOG_ARCHIVE_FAILED`, not retryable, if there is no place for logs at all; a pod's machine
   * need not wait for that
   * @throws the signal's reason when it aborts
   */
  async save(
    podUid: string,
    agent: AgentClient,
    report: PodReport,
    signal: AbortSignal,
  ): Promise<void> {
    if (!uidShape.test(podUid)) return;
    const folder = path.join(this.#root, podUid);
    await makeFolder(folder);
    const all = [
      ...report.initContainers,
      ...report.containers,
      ...report.ephemeralContainers,
    ].filter(({ name }) => containerShape.test(name));
    await Promise.all(
      all.flatMap((container) => [
        ...(container.terminated
          ? [this.#fetch(agent, folder, container.name, false, signal)]
          : []),
        ...(container.lastTerminated
          ? [this.#fetch(agent, folder, container.name, true, signal)]
          : []),
      ]),
    );
  }

  async #fetch(
    agent: AgentClient,
    folder: string,
    container: string,
    previous: boolean,
    signal: AbortSignal,
  ): Promise<void> {
    const file = path.join(folder, fileName(container, previous));
    try {
      const log = await agent.logs(
        container,
        { timestamps: true, previous, tailBytes: maxLogBytes },
        signal,
      );
      const part = createWriteStream(`${file}.part`, { mode: 0o600 });
      await pipeline(log, firstBytes(maxLogBytes), part, { signal });
      // Whoever reads meanwhile asks the agent: a saved log is a whole one.
      await rename(`${file}.part`, file);
    } catch (error) {
      await rm(`${file}.part`, { force: true }).catch(() => {}); // the warning below says why
      if (signal.aborted) throw error;
      this.#logger.warn("Log of a finished container could not be saved", {
        container,
        reason: errorText(error),
      });
    }
  }

  /** The saved log, or undefined if there is none. */
  async read(
    podUid: string,
    container: string,
    options: LogOptions,
  ): Promise<Readable | undefined> {
    if (!uidShape.test(podUid) || !containerShape.test(container)) return undefined;
    const file = path.join(this.#root, podUid, fileName(container, options.previous));
    return await readSavedLog(file, options);
  }

  /**
   * Removes the logs of a pod. A failure is logged and no more: {@link pods} lists them again, and the pod's removal
   * does not depend on it.
   */
  async remove(podUid: string): Promise<void> {
    if (!uidShape.test(podUid)) return;
    try {
      await rm(path.join(this.#root, podUid), { recursive: true, force: true });
    } catch (error) {
      this.#logger.warn("Could not remove the logs of a finished pod", {
        podUid,
        reason: errorText(error),
      });
    }
  }

  /** UIDs of the pods that have saved logs. */
  async pods(): Promise<readonly string[]> {
    try {
      return (await readdir(this.#root)).filter((name) => uidShape.test(name));
    } catch {
      return [];
    }
  }
}

async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw new KipError(
      "LOG_ARCHIVE_FAILED",
      `Cannot save logs of a finished pod in "${folder}": ${errorText(error)}`,
      { cause: error, remedy: "Give a directory that kip can write to with --log-dir" },
    );
  }
}

/** A cell is asked for so much; it may send more. */
function firstBytes(limit: number) {
  return async function* (source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    let left = limit;
    for await (const chunk of source) {
      yield chunk.subarray(0, left);
      left -= chunk.length;
      if (left <= 0) return;
    }
  };
}

function fileName(container: string, previous: boolean): string {
  return previous ? `${container}.previous.log` : `${container}.log`;
}

import { createWriteStream } from "node:fs";
import { lstat, mkdir, readdir, rename, rm } from "node:fs/promises";
import path from "node:path";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { bytesOf, errorText, inParallel, isSystemError, type Logger } from "@kip/base";
import { AgentError, type AgentClient, type ReportedPod } from "@kip/agent-api";
import type { LogOptions } from "@kip/virtual-kubelet";
import { ProviderError } from "../errors.ts";
import { readSavedLog } from "./read-saved-log.ts";

/** How much is kept of the end of one container's log, bytes. The kubelet's default for a log file. */
const maxLogBytes = 10 * 1024 * 1024;

/**
 * Maximum size of all logs, bytes. Less than the volume of kip's own pod, because a kubelet evicts a pod whose emptyDir exceeds
 * its `sizeLimit`.
 */
const maxArchiveBytes = 768 * 1024 * 1024;

/** Minimum disk use of a file, bytes: one block. */
const blockBytes = 4096;

/** Names come from cells and from the disk, so only folders and files with names of this form are touched. */
const uidShape = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i;
const containerShape = /^[a-z\d][-a-z\d]{0,62}$/;

/** How many logs of a pod to fetch concurrently. Each uses an open file and a stream of the connection. */
const parallelFetches = 4;

/** One run of a container: the last one or the one before. */
interface ContainerRun {
  readonly container: string;
  readonly previous: boolean;
}

/**
 * Logs of finished pods whose cells are gone. `kubectl logs` shows them until the pod is deleted. The files are
 * `<root>/<pod UID>/<container>.log`, where each line starts with its time. If there is no more room, the largest pod's logs
 * are removed, or among equals those of the pod that finished first. If that pod's logs are just being saved, they are
 * truncated instead. So a pod with many containers does not displace the logs of all others.
 */
export class LogArchive {
  readonly #root: string;
  readonly #logger: Logger;
  readonly #maxBytes: number;
  /** Size of each pod's logs. The oldest pod comes first. */
  readonly #sizes = new Map<string, number>();
  readonly #saving = new Set<string>();
  #total = 0;
  #loaded: Promise<void> | undefined;

  constructor(root: string, logger: Logger, maxBytes = maxArchiveBytes) {
    this.#root = root;
    this.#logger = logger;
    this.#maxBytes = maxBytes;
  }

  /**
   * Fetches the logs of all containers that ran. Skips a log that the agent does not have or that cannot be written, with a
   * warning. Repeat the call after a lost connection: saved logs are not fetched again.
   *
   * @throws {ProviderError} code `LOG_ARCHIVE_FAILED`, not retryable, if there is no folder for logs; a pod's machine need not
   * wait for that
   * @throws {AgentError} code `AGENT_UNREACHABLE`, retryable, if a log broke off; the others are saved as far as possible
   * @throws the signal's reason when it aborts
   */
  async save(
    podUid: string,
    agent: AgentClient,
    report: ReportedPod,
    signal: AbortSignal,
  ): Promise<void> {
    if (!uidShape.test(podUid)) return;
    const folder = path.join(this.#root, podUid);
    await createFolder(folder);
    await (this.#loaded ??= this.#load());
    let lost: AgentError | undefined;
    this.#saving.add(podUid);
    try {
      await inParallel(endedRuns(report), parallelFetches, async (run) => {
        try {
          await this.#fetch(agent, podUid, run, signal);
        } catch (error) {
          if (signal.aborted || !AgentError.is(error)) throw error;
          lost = error;
        }
      });
    } finally {
      this.#saving.delete(podUid);
    }
    if (lost) throw lost;
  }

  /** Finds what an earlier process has saved. */
  async #load(): Promise<void> {
    const found: { readonly uid: string; readonly size: number; readonly at: number }[] = [];
    for (const uid of await this.pods()) {
      const folder = path.join(this.#root, uid);
      let [size, at] = [0, 0];
      for (const name of await readdir(folder).catch(() => [])) {
        const stat = await lstat(path.join(folder, name)).catch(() => undefined);
        size += blockBytes + (stat?.size ?? 0);
        at = Math.max(at, stat?.mtimeMs ?? 0);
      }
      found.push({ uid, size, at });
    }
    for (const { uid, size } of found.sort((a, b) => a.at - b.at)) this.#count(uid, size);
  }

  #count(podUid: string, bytes: number): void {
    const size = (this.#sizes.get(podUid) ?? 0) + bytes;
    if (size > 0) this.#sizes.set(podUid, size);
    else this.#sizes.delete(podUid);
    this.#total += bytes;
  }

  /** Makes room for this many bytes of a pod's logs. @returns whether there is room */
  async #take(podUid: string, bytes: number): Promise<boolean> {
    this.#count(podUid, bytes);
    while (this.#total > this.#maxBytes) {
      const largest = this.#largest();
      if (largest === undefined || largest.size < (this.#sizes.get(podUid) ?? 0)) break;
      this.#logger.info("Removed the logs of a finished pod: all take too much room", {
        podUid: largest.uid,
      });
      await this.remove(largest.uid);
    }
    if (this.#total <= this.#maxBytes) return true;
    this.#count(podUid, -bytes);
    return false;
  }

  /** The pod with the largest logs that are not being saved. Among equals, the oldest. */
  #largest(): { readonly uid: string; readonly size: number } | undefined {
    let found: { readonly uid: string; readonly size: number } | undefined;
    for (const [uid, size] of this.#sizes)
      if (size > (found?.size ?? 0) && !this.#saving.has(uid)) found = { uid, size };
    return found;
  }

  /** @throws {AgentError} code `AGENT_UNREACHABLE` @throws the signal's reason when it aborts */
  async #fetch(
    agent: AgentClient,
    podUid: string,
    { container, previous }: ContainerRun,
    signal: AbortSignal,
  ): Promise<void> {
    const file = path.join(this.#root, podUid, fileName(container, previous));
    if (await exists(file)) return;
    let taken = 0;
    const take = async (bytes: number): Promise<boolean> => {
      const isRoom = await this.#take(podUid, bytes);
      if (isRoom) taken += bytes;
      return isRoom;
    };
    try {
      if (!(await take(blockBytes))) return;
      const log = await agent.logs(
        container,
        { timestamps: true, previous, tailBytes: maxLogBytes, isForKip: true },
        signal,
      );
      const part = createWriteStream(`${file}.part`, { mode: 0o600 });
      await pipeline(firstBytes(log, { limit: maxLogBytes, container, take }), part, { signal });
      // Rename it only now, so that a saved log is complete. Until then readers ask the agent.
      await rename(`${file}.part`, file);
    } catch (error) {
      await rm(`${file}.part`, { force: true }).catch(() => {}); // the error says why
      // The pod may have been removed in the meantime.
      this.#count(podUid, -Math.min(taken, this.#sizes.get(podUid) ?? 0));
      if (signal.aborted || AgentError.is(error, "AGENT_UNREACHABLE")) throw error;
      this.#logger.warn("Could not save the log of a finished container", {
        container,
        err: error,
      });
    }
  }

  /** The saved log. Undefined if there is none. */
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
   * Removes a pod's logs. A failure is only logged: {@link pods} lists them again, and the pod's removal does not depend on it.
   */
  async remove(podUid: string): Promise<void> {
    if (!uidShape.test(podUid)) return;
    this.#total -= this.#sizes.get(podUid) ?? 0;
    this.#sizes.delete(podUid);
    const folder = path.join(this.#root, podUid);
    try {
      // Most pods are removed before they end, and have no logs. Checking first is several times cheaper than removing.
      await lstat(folder);
      await rm(folder, { recursive: true, force: true });
    } catch (error) {
      if (isSystemError(error, "ENOENT")) return;
      this.#logger.warn("Could not remove the logs of a finished pod", {
        podUid,
        err: error,
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

async function createFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw new ProviderError(
      "LOG_ARCHIVE_FAILED",
      `Cannot save logs of a finished pod in "${folder}": ${errorText(error)}`,
      { cause: error, remedy: "Give a directory that kip can write to with --log-dir" },
    );
  }
}

/** The ended runs of a pod's containers that have a log. */
function endedRuns(report: ReportedPod): ContainerRun[] {
  return [...report.initContainers, ...report.containers, ...report.ephemeralContainers]
    .filter(({ name }) => containerShape.test(name))
    .flatMap(({ name: container, terminated, lastTerminated }) => [
      ...(terminated ? [{ container, previous: false }] : []),
      ...(lastTerminated ? [{ container, previous: true }] : []),
    ]);
}

async function exists(file: string): Promise<boolean> {
  return await lstat(file).then(
    () => true,
    () => false,
  );
}

/**
 * The content of a log, at most `limit` bytes, because a cell may send more than requested. Ends early if the archive is full.
 *
 * @throws {AgentError} code `AGENT_UNREACHABLE` if the log breaks off
 */
async function* firstBytes(
  source: Readable,
  {
    limit,
    container,
    take,
  }: {
    readonly limit: number;
    readonly container: string;
    readonly take: (bytes: number) => Promise<boolean>;
  },
): AsyncGenerator<Buffer> {
  let left = limit;
  try {
    for await (const chunk of bytesOf(source)) {
      if (!(await take(Math.min(chunk.length, left)))) return;
      yield chunk.subarray(0, left);
      left -= chunk.length;
      if (left <= 0) return;
    }
  } catch (cause) {
    throw new AgentError(
      "AGENT_UNREACHABLE",
      `Cannot read the log of container "${container}": it broke off: ${errorText(cause)}`,
      { cause, retryable: true },
    );
  }
}

function fileName(container: string, previous: boolean): string {
  return previous ? `${container}.previous.log` : `${container}.log`;
}

import { createReadStream, createWriteStream } from "node:fs";
import { access, mkdir, readdir, rename, rm } from "node:fs/promises";
import path from "node:path";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { errorText, type Logger } from "@kip/base";
import type { AgentClient, PodReport } from "@kip/agent-api";
import type { LogOptions } from "@kip/virtual-kubelet";

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

  /** Fetches the logs of all containers that ran; what cannot be had is left out with a warning. */
  async save(
    podUid: string,
    agent: AgentClient,
    report: PodReport,
    signal: AbortSignal,
  ): Promise<void> {
    if (!uidShape.test(podUid)) return;
    const folder = path.join(this.#root, podUid);
    await mkdir(folder, { recursive: true, mode: 0o700 });
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
    try {
      await access(file);
    } catch {
      return undefined;
    }
    return Readable.from(filterLines(file, options));
  }

  /** Forgets the logs of a pod. */
  async remove(podUid: string): Promise<void> {
    if (!uidShape.test(podUid)) return;
    await rm(path.join(this.#root, podUid), { recursive: true, force: true });
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

async function* filterLines(file: string, options: LogOptions): AsyncGenerator<string> {
  const lines = createInterface({ input: createReadStream(file), crlfDelay: Infinity });
  const last: string[] = [];
  const emit = limiter(options.limitBytes);
  for await (const line of lines) {
    const space = line.indexOf(" ");
    if (options.sinceTimeMs !== undefined && Date.parse(line.slice(0, space)) < options.sinceTimeMs)
      continue;
    const text = `${options.timestamps ? line : line.slice(space + 1)}\n`;
    if (options.tailLines === undefined) {
      const piece = emit(text);
      if (piece === undefined) return;
      yield piece;
      continue;
    }
    last.push(text);
    if (last.length > options.tailLines) last.shift();
  }
  for (const text of last) {
    const piece = emit(text);
    if (piece === undefined) return;
    yield piece;
  }
}

/** Cuts the text that passes through to a number of bytes; undefined once nothing is left. */
function limiter(limitBytes: number | undefined): (text: string) => string | undefined {
  let left = limitBytes ?? Number.POSITIVE_INFINITY;
  return (text) => {
    if (left <= 0) return undefined;
    const piece =
      Buffer.byteLength(text) <= left ? text : Buffer.from(text).subarray(0, left).toString();
    left -= Buffer.byteLength(piece);
    return piece;
  };
}

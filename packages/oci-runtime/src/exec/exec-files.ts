import { readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { untilAborted, watchOrPoll } from "@kip/base";
import type { OciProcess } from "../bundle/oci-spec.ts";
import { RuntimeError, type ExecFailure } from "../errors.ts";

/** The files of one `exec`: what crun reads and what it writes. Disposing removes them. */
export class ExecFiles implements AsyncDisposable {
  readonly process: string;
  readonly pid: string;
  readonly log: string;
  /** For a socket that crun sends a terminal to. */
  readonly console: string;
  readonly #directory: string;

  private constructor(directory: string, name: string) {
    this.#directory = directory;
    this.process = path.join(directory, `${name}.json`);
    this.pid = path.join(directory, `${name}.pid`);
    this.log = path.join(directory, `${name}.log`);
    this.console = path.join(directory, `${name}.console`);
  }

  static async create(directory: string, name: string, process: OciProcess): Promise<ExecFiles> {
    const files = new ExecFiles(directory, name);
    await writeFile(files.process, JSON.stringify(process), { mode: 0o600 });
    return files;
  }

  /** The process's ID; undefined if crun has not started it. */
  async readPid(): Promise<number | undefined> {
    const pid = Number(await readFile(this.pid, "utf8").catch(() => ""));
    return pid > 0 ? pid : undefined;
  }

  /** The process's ID as soon as crun has written it. @throws the signal's reason */
  async waitPid(signal: AbortSignal): Promise<number> {
    const { promise, resolve } = Promise.withResolvers<number>();
    const look = (): void =>
      void this.readPid().then((pid) => {
        if (pid !== undefined) resolve(pid);
      });
    const watcher = watchOrPoll(this.#directory, look, { intervalMs: 50 });
    try {
      look();
      return await untilAborted(promise, signal);
    } finally {
      watcher[Symbol.dispose]();
    }
  }

  /**
   * The exit code of the process, or why it never was one: crun exits like the process it ran, so
   * only what it logged tells its own failures from the process's.
   * @throws {RuntimeError} `EXEC_FAILED`
   */
  async readResult(id: string, exitCode: number): Promise<number> {
    if (exitCode === 0) return 0;
    const said = (await readFile(this.log, "utf8").catch(() => "")).trim();
    if (said !== "") throw execFailed(id, said);
    // A process that has begun has left its ID: this is the exit code of a shell that could not start crun.
    if ((await this.readPid()) === undefined) throw execFailed(id, "crun did not start");
    return exitCode;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const all = [this.process, this.pid, this.log, this.console];
    await Promise.all(all.map((file) => rm(file, { force: true })));
  }
}

function execFailed(id: string, said: string): RuntimeError {
  return new RuntimeError("EXEC_FAILED", `Cannot run a command in container "${id}": ${said}`, {
    remedy: "Check the command, and that the container runs.",
    execFailure: execFailure(said),
  });
}

/** Sorts what crun 1.x says into the few cases a caller tells apart. */
function execFailure(said: string): ExecFailure {
  if (/status`: No such file|not running|is stopped/i.test(said)) return "not-running";
  if (/not found in \$PATH|open executable: No such file/i.test(said)) return "not-found";
  if (/Permission denied|Exec format error/i.test(said)) return "not-executable";
  return "other";
}

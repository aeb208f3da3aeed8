import { readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { untilAborted, watchOrPoll } from "@kip/base";
import type { OciProcess } from "../bundle/oci-spec.ts";
import { RuntimeError, type ExecFailure } from "../errors.ts";

/** The files of one `exec` for exchanging data with crun. Disposing removes them. */
export class ExecFiles implements AsyncDisposable {
  readonly process: string;
  readonly pid: string;
  readonly log: string;
  /** Path of a socket to which crun sends a terminal. */
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

  /** The process's ID. Undefined if crun has not started it. */
  async readPid(): Promise<number | undefined> {
    const pid = Number(await readFile(this.pid, "utf8").catch(() => ""));
    return pid > 0 ? pid : undefined;
  }

  /** Waits until crun has written the process's ID. @throws the signal's reason */
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
   * The process's exit code, or the error if it was not started. crun exits with the code of the process, so only its log
   * distinguishes its own failures.
   *
   * @throws {RuntimeError} `EXEC_FAILED`
   */
  async readResult(id: string, exitCode: number): Promise<number> {
    if (exitCode === 0) return 0;
    const message = (await readFile(this.log, "utf8").catch(() => "")).trim();
    if (message !== "") throw execFailed(id, message);
    // A process that started has left its ID. Otherwise this is the exit code of a shell that could not start crun.
    if ((await this.readPid()) === undefined) throw execFailed(id, "crun did not start");
    return exitCode;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const all = [this.process, this.pid, this.log, this.console];
    await Promise.all(all.map((file) => rm(file, { force: true })));
  }
}

function execFailed(id: string, message: string): RuntimeError {
  return new RuntimeError("EXEC_FAILED", `Cannot run a command in container "${id}": ${message}`, {
    remedy: "Check the command, and that the container runs.",
    execFailure: execFailure(message),
  });
}

/** Classifies an error message of crun 1.x. */
function execFailure(message: string): ExecFailure {
  if (/status`: No such file|not running|is stopped/i.test(message)) return "not-running";
  if (/not found in \$PATH|open executable: No such file/i.test(message)) return "not-found";
  if (/Permission denied|Exec format error/i.test(message)) return "not-executable";
  return "other";
}

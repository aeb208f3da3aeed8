import { spawn, type ChildProcess } from "node:child_process";
import { writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { backoffDelay, hasPipes, identifyProcess, pause, type Clock } from "@kip/base";
import { lastErrorLines } from "./last-error-lines.ts";
import { LimitedLog } from "./limited-log.ts";

/** A program and how to run it. */
export interface ProgramSpec {
  /** Name for messages. */
  readonly name: string;
  /** Path, or a name that is looked up in the PATH of `env`. */
  readonly file: string;
  readonly args: readonly string[];
  /** The program's whole environment. */
  readonly env: Readonly<NodeJS.ProcessEnv>;
  /** Working directory. @default this process's */
  readonly directory?: string | undefined;
  /** File that its output is appended to. */
  readonly logFile: string;
  /** Size at which a new log file starts, bytes. One older file is kept as `<logFile>.1`. */
  readonly logLimitBytes: number;
  /** File that identifies the process for a later start, which ends it if it still runs. @default none */
  readonly identityFile?: string | undefined;
  /** Time between SIGTERM and SIGKILL, milliseconds. @default 10,000 */
  readonly stopGraceMs?: number | undefined;
}

/** How and why a program ended. */
export interface ProgramEnd {
  /** {@link ProgramSpec.name} */
  readonly name: string;
  /** How it ended, such as `exit code 1` or `SIGKILL`. */
  readonly how: string;
  /** How it ended, and the last lines that report an error, in one sentence. */
  readonly reason: string;
  /** The end of its output, at most 16 KiB. */
  readonly output: string;
}

const restart = { initialMs: 250, maxMs: 30_000 } as const;
/** After running this long, a program is restarted with the shortest delay again. */
const steadyMs = 60_000;
/** This many ends in a row, each earlier than {@link steadyMs}, are a failure. */
const failuresInRow = 3;
/** How much of the output is kept, characters. */
const outputLength = 16 * 1024;

/**
 * One child process, which is restarted when it ends unexpectedly.
 *
 * - At most one process runs at a time.
 * - After `stop` was called, no process is started.
 * - The child ends with this process, even after SIGKILL (PR_SET_PDEATHSIG).
 */
export class SupervisedProgram implements AsyncDisposable {
  readonly #spec: ProgramSpec;
  readonly #clock: Clock;
  readonly #stopping = new AbortController();
  readonly #failing = Promise.withResolvers<ProgramEnd>();
  #child: ChildProcess | undefined;
  #ended: Promise<ProgramEnd> | undefined;
  #supervision: Promise<void> | undefined;

  constructor(spec: ProgramSpec, clock: Clock) {
    this.#spec = spec;
    this.#clock = clock;
  }

  /** Process ID while the program is running. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Resolves with the last end once the program has ended soon after its start three times in a row. */
  get failing(): Promise<ProgramEnd> {
    return this.#failing.promise;
  }

  /** Starts the program. Resolves with its end, after which it is not restarted yet. */
  async start(): Promise<ProgramEnd> {
    return await this.#run();
  }

  /** From now on, restarts the program when it ends. `onEnd` gets each end and the delay. */
  supervise(onEnd: (end: ProgramEnd, restartInMs: number) => void): void {
    this.#supervision ??= this.#keepRunning(onEnd);
  }

  /** Ends the program permanently. Resolves when it is gone. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#terminate();
    await this.#supervision;
    // A restart that was under way has noticed the stop by now and left nothing running.
    await this.#terminate();
    const { identityFile } = this.#spec;
    if (identityFile !== undefined) await rm(identityFile, { force: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #keepRunning(onEnd: (end: ProgramEnd, restartInMs: number) => void): Promise<void> {
    const signal = this.#stopping.signal;
    let attempt = 0;
    while (!signal.aborted && this.#ended) {
      const startedAt = this.#clock.monotonic();
      const end = await this.#ended;
      if (signal.aborted) return;
      if (this.#clock.monotonic() - startedAt > steadyMs) attempt = 0;
      const delay = backoffDelay(attempt++, restart);
      onEnd(end, Math.round(delay));
      if (attempt >= failuresInRow) this.#failing.resolve(end);
      if (!(await pause(delay, this.#clock, signal))) return;
      void this.#run();
    }
  }

  #run(): Promise<ProgramEnd> {
    const { name, directory, env, file, args, logFile, logLimitBytes } = this.#spec;
    const log = new LimitedLog(logFile, logLimitBytes);
    const { promise, resolve } = Promise.withResolvers<ProgramEnd>();
    this.#ended = promise;
    // setpriv is replaced by the program: the process ID is the same, and SIGKILL comes when this process ends.
    const child = spawn("setpriv", ["--pdeathsig", "KILL", "--", file, ...args], {
      cwd: directory,
      env,
      // Output goes through this process, which limits the log. The program's clients can cause output.
      stdio: ["ignore", "pipe", "pipe"],
      // This process handles Ctrl-C in a terminal, in the right order.
      detached: true,
    });
    let output = "";
    // Without free file descriptors it has no pipes, and reports the error below.
    for (const stream of hasPipes(child) ? [child.stdout, child.stderr] : []) {
      stream.on("data", (bytes: Buffer) => {
        log.write(bytes);
        output = (output + bytes.toString()).slice(-outputLength);
      });
    }
    this.#child = child;
    if (child.pid !== undefined) this.#record(child.pid);
    const finish = (how: string, sentence: string): void => {
      this.#child = undefined;
      log[Symbol.dispose]();
      const lines = lastErrorLines(output);
      const reason = `${name} ${sentence}${lines === "" ? "" : `: ${lines}`}`;
      resolve({ name, how, reason, output });
    };
    child.once("error", (error) =>
      finish(error.message, `could not be started (${error.message})`),
    );
    child.once("close", (code, signal) => {
      if (signal) finish(signal, `was ended by ${signal}`);
      else finish(`exit code ${code}`, `ended with exit code ${code}`);
    });
    return promise;
  }

  /** Records the process for a later start. */
  #record(pid: number): void {
    const { identityFile } = this.#spec;
    if (identityFile === undefined) return;
    try {
      writeFileSync(identityFile, JSON.stringify(identifyProcess(pid) ?? {}), { mode: 0o600 });
    } catch {
      // For example, no space. The program ends together with this process anyway.
    }
  }

  async #terminate(): Promise<void> {
    const ended = this.#ended;
    const child = this.#child;
    if (!ended || !child) return;
    child.kill("SIGTERM");
    const timer = new AbortController();
    void pause(this.#spec.stopGraceMs ?? 10_000, this.#clock, timer.signal).then((isOver) => {
      if (isOver) child.kill("SIGKILL");
    });
    try {
      await ended;
    } finally {
      timer.abort();
    }
  }
}

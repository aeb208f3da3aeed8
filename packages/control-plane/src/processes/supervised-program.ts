import { spawn, type ChildProcess } from "node:child_process";
import { writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { backoffDelay, type Clock } from "@kip/base";
import type { ProgramName } from "../binaries/pinned-version.ts";
import { lastWords } from "./last-words.ts";
import { endLeftover } from "./leftover.ts";
import { LimitedLog } from "./limited-log.ts";
import { identify } from "./process-identity.ts";

/** What to run, and where. */
export interface ProgramSpec {
  readonly program: ProgramName;
  readonly file: string;
  /** Working directory; exists. */
  readonly directory: string;
  /** Directory of its `<program>.log`. */
  readonly logDir: string;
  /** Directory of its `<program>.json`, which names the process for a later start. */
  readonly runDir: string;
  /** Size of its log at which a new one is begun, bytes; one older is kept. */
  readonly logLimitBytes: number;
  /** How long it may take to end after SIGTERM, milliseconds; then comes SIGKILL. */
  readonly stopGraceMs: number;
}

/** How and why a program ended. */
export interface ProgramEnd {
  readonly program: ProgramName;
  readonly reason: string;
}

const restart = { initialMs: 250, maxMs: 30_000 } as const;
/** A program that ran this long starts over with the shortest delay. */
const steadyMs = 60_000;
/** How much of its output is kept for {@link lastWords}, characters. */
const tailLength = 16 * 1024;

/**
 * One child process, started again when it ends unasked.
 *
 * - At most one process runs at a time.
 * - After `stop` was called none is started any more.
 * - The child dies with this process, even after SIGKILL (PR_SET_PDEATHSIG).
 */
export class SupervisedProgram {
  readonly spec: ProgramSpec;
  readonly #clock: Clock;
  readonly #stopping = new AbortController();
  #args: readonly string[] = [];
  #child: ChildProcess | undefined;
  #ended: Promise<ProgramEnd> | undefined;
  #supervision: Promise<void> | undefined;

  constructor(spec: ProgramSpec, clock: Clock) {
    this.spec = spec;
    this.#clock = clock;
  }

  /** Process id while it runs. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Path of its log. */
  get logPath(): string {
    return join(this.spec.logDir, `${this.spec.program}.log`);
  }

  /** Ends the process of an earlier start that did not end with its parent, if there is one. */
  async endLeftover(): Promise<void> {
    await endLeftover(this.#identityPath, this.#clock);
  }

  /** Starts it; resolves with its end, which is not followed by a restart yet. */
  async start(args: readonly string[]): Promise<ProgramEnd> {
    this.#args = args;
    return await this.#run();
  }

  /** From now on starts it again whenever it ends; `onEnd` learns of each end and of the delay. */
  supervise(onEnd: (end: ProgramEnd, restartInMs: number) => void): void {
    this.#supervision ??= this.#keepRunning(onEnd);
  }

  /** Ends it for good; resolves when it is gone. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#terminate();
    await this.#supervision;
    // A restart that was under way when the stop came has seen it by now and left nothing running.
    await this.#terminate();
    await rm(this.#identityPath, { force: true });
  }

  get #identityPath(): string {
    return join(this.spec.runDir, `${this.spec.program}.json`);
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
      try {
        await this.#clock.sleep(delay, signal);
      } catch {
        return; // stopped while waiting
      }
      void this.#run();
    }
  }

  #run(): Promise<ProgramEnd> {
    const { program, directory, file } = this.spec;
    const log = new LimitedLog(this.logPath, this.spec.logLimitBytes);
    const { promise, resolve } = Promise.withResolvers<ProgramEnd>();
    this.#ended = promise;
    // setpriv becomes the program itself: same process id, and SIGKILL comes with our own end.
    const child = spawn("setpriv", ["--pdeathsig", "KILL", "--", file, ...this.#args], {
      cwd: directory,
      // Nothing of the caller's: no proxy, no credentials, no Go settings.
      env: { PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" },
      // Through this process, which limits the log: whoever reaches the API server can make it write.
      stdio: ["ignore", "pipe", "pipe"],
      // Ctrl-C in a terminal is for us to answer, in the right order.
      detached: true,
    });
    let end = "";
    for (const output of [child.stdout, child.stderr]) {
      output.on("data", (bytes: Buffer) => {
        log.write(bytes);
        end = (end + bytes.toString()).slice(-tailLength);
      });
    }
    this.#child = child;
    if (child.pid !== undefined) this.#record(child.pid);
    const finish = (how: string): void => {
      this.#child = undefined;
      log[Symbol.dispose]();
      const words = lastWords(end);
      resolve({ program, reason: `${program} ${how}${words === "" ? "" : `: ${words}`}` });
    };
    child.once("error", (error) => finish(`could not be started (${error.message})`));
    child.once("close", (code, signal) =>
      finish(signal ? `was ended by ${signal}` : `ended with exit code ${code}`),
    );
    return promise;
  }

  /** Names the process for a later start. */
  #record(pid: number): void {
    try {
      writeFileSync(this.#identityPath, JSON.stringify(identify(pid) ?? {}), { mode: 0o600 });
    } catch {
      // No space, for example. It dies with this process all the same.
    }
  }

  async #terminate(): Promise<void> {
    const ended = this.#ended;
    const child = this.#child;
    if (!ended || !child) return;
    child.kill("SIGTERM");
    const timer = setTimeout(() => child.kill("SIGKILL"), this.spec.stopGraceMs);
    try {
      await ended;
    } finally {
      clearTimeout(timer);
    }
  }
}

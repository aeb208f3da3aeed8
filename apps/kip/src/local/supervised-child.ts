import { spawn, type ChildProcess } from "node:child_process";
import { openSync, closeSync } from "node:fs";
import { backoffDelay, errorText, type Clock, type Logger } from "@kip/base";
import { LimitedLog } from "@kip/control-plane";

/** What {@link superviseChild} runs. */
export interface SupervisedChildOptions {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  /** Working directory. @default this process's */
  readonly cwd?: string;
  /** File that its output is appended to. */
  readonly logFile: string;
  /** Size of the log file at which a new one is begun, bytes; one older is kept. @default unlimited */
  readonly logLimitBytes?: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** A child process that is started again whenever it ends, until it is disposed. */
export interface SupervisedChild extends AsyncDisposable {
  readonly pid: number | undefined;
  /** Resolves, with how it ended last, once the program has ended soon after its start three times in a row. */
  readonly failing: Promise<string>;
}

/** A program that ends sooner than this, milliseconds, has not come up. */
const soonMs = 30_000;
const failuresInRow = 3;

/** Starts a program and keeps it running. Disposing sends SIGTERM, and SIGKILL after 10 s. */
export function superviseChild(options: SupervisedChildOptions): SupervisedChild {
  const { name, clock, logger } = options;
  const stop = new AbortController();
  let child: ChildProcess | undefined;
  const failing = Promise.withResolvers<string>();
  const work = run();
  return {
    get pid() {
      return child?.pid;
    },
    failing: failing.promise,
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      child?.kill("SIGTERM");
      const timer = setTimeout(() => child?.kill("SIGKILL"), 10_000);
      await work;
      clearTimeout(timer);
    },
  };

  async function run(): Promise<void> {
    for (let attempt = 0; !stop.signal.aborted; attempt++) {
      const started = clock.monotonic();
      const how = await once().catch((error: unknown) => errorText(error));
      if (stop.signal.aborted) return;
      if (clock.monotonic() - started > soonMs) attempt = 0;
      if (attempt + 1 >= failuresInRow) failing.resolve(how);
      logger.warn("Process ended and is started again", { process: name, how, attempt });
      const delay = backoffDelay(attempt, { initialMs: 200, maxMs: 10_000 });
      await clock.sleep(delay, stop.signal).catch(() => {});
    }
  }

  async function once(): Promise<string> {
    const started =
      options.logLimitBytes === undefined ? spawnWith(options) : spawnLimited(options);
    child = started;
    return await new Promise((resolve) => {
      started.on("error", (error) => resolve(error.message));
      started.on("exit", (code, signal) => resolve(signal ?? `exit code ${code}`));
    });
  }
}

/** The program writes to its log itself, also while this process is busy or gone. */
function spawnWith({ command, args, env, cwd, logFile }: SupervisedChildOptions): ChildProcess {
  const log = openSync(logFile, "a", 0o600);
  const child = spawn(command, args, { env, cwd, stdio: ["ignore", log, log] });
  closeSync(log);
  return child;
}

/** Its output goes through this process, which limits the log. */
function spawnLimited(options: SupervisedChildOptions): ChildProcess {
  const { command, args, env, cwd, logFile, logLimitBytes = 0 } = options;
  const log = new LimitedLog(logFile, logLimitBytes);
  const child = spawn(command, args, { env, cwd, stdio: ["ignore", "pipe", "pipe"] });
  for (const output of [child.stdout, child.stderr])
    output.on("data", (text: Buffer) => log.write(text)).on("error", () => {});
  child.on("close", () => log[Symbol.dispose]());
  return child;
}

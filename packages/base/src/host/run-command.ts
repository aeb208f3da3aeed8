import type { ChildProcessWithoutNullStreams } from "node:child_process";
import { Readable } from "node:stream";
import { hasPipes } from "./node-objects.ts";
import { systemClock, type Clock } from "../clock.ts";
import { CommandError } from "../errors.ts";
import { pause } from "../waiting/pause.ts";

/** Options of {@link runCommand}. */
export interface RunCommandOptions {
  readonly cwd?: string | undefined;
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
  /** Standard input. The program may start before a stream has data. @default closed at once */
  readonly input?: string | Uint8Array | Readable | undefined;
  /** Kills the process (SIGKILL) and fails. */
  readonly signal?: AbortSignal | undefined;
  /** Kills the process and fails after this many milliseconds. @default no limit */
  readonly timeoutMs?: number | undefined;
  /** @default systemClock */
  readonly clock?: Clock | undefined;
  /** Called with each piece of standard error and output as it arrives. */
  readonly onOutput?: ((text: string) => void) | undefined;
}

/** What {@link runCommand} returns. */
export interface CommandResult {
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs a program to its end and returns its output.
 *
 * The program has ended when its output has. A process that it started may hold the output open. After an abort or timeout,
 * this waits only for the program itself.
 *
 * @throws {CommandError} code `COMMAND_FAILED` when it cannot be started, exits non-zero, is killed or takes too long
 */
export async function runCommand(
  file: string,
  args: readonly string[] = [],
  options: RunCommandOptions = {},
): Promise<CommandResult> {
  const { timeoutMs = Number.POSITIVE_INFINITY, clock = systemClock } = options;
  const end = new AbortController();
  const late = new AbortController();
  void pause(timeoutMs, clock, end.signal).then((isOver) => {
    if (isOver) late.abort(timeoutError(timeoutMs));
  });
  const signal = options.signal ? AbortSignal.any([options.signal, late.signal]) : late.signal;
  try {
    return await new Run([file, ...args], options, signal).start();
  } finally {
    end.abort();
  }
}

/** One process and its output. */
class Run {
  readonly #words: readonly string[];
  readonly #options: RunCommandOptions;
  readonly #signal: AbortSignal;
  readonly #stdout: string[] = [];
  readonly #stderr: string[] = [];
  readonly #result = Promise.withResolvers<CommandResult>();
  #startError: Error | undefined;

  constructor(words: readonly string[], options: RunCommandOptions, signal: AbortSignal) {
    this.#words = words;
    this.#options = options;
    this.#signal = signal;
  }

  start(): Promise<CommandResult> {
    const [file = "", ...args] = this.#words;
    const { cwd, env } = this.#options;
    // Loaded on first use: the agent of a cell answers requests before it runs a command.
    const { spawn } = process.getBuiltinModule("node:child_process");
    const stdio: ["pipe", "pipe", "pipe"] = ["pipe", "pipe", "pipe"];
    const child = spawn(file, args, {
      cwd,
      env,
      stdio,
      signal: this.#signal,
      killSignal: "SIGKILL",
    });
    child.on("error", (error) => {
      this.#startError = error;
      if (child.pid === undefined) this.#result.reject(this.#failure(error.message));
    });
    if (hasPipes(child)) this.#follow(child);
    return this.#result.promise;
  }

  #follow(child: ChildProcessWithoutNullStreams): void {
    const { input, onOutput } = this.#options;
    const keep = (stream: Readable, texts: string[]): void =>
      void stream.setEncoding("utf8").on("data", (text: string) => {
        texts.push(text);
        onOutput?.(text);
      });
    keep(child.stdout, this.#stdout);
    keep(child.stderr, this.#stderr);
    // A program may exit without reading its input.
    child.stdin.on("error", () => {});
    if (input instanceof Readable) input.pipe(child.stdin);
    else child.stdin.end(input);
    this.#awaitEnd(child);
  }

  #awaitEnd(child: ChildProcessWithoutNullStreams): void {
    // A process that the program started may hold its output open after the program's end.
    let isCutOff = false;
    const cutOff = (): void => {
      if (!this.#signal.aborted || (child.exitCode === null && child.signalCode === null)) return;
      isCutOff = true;
      child.stdout.destroy();
      child.stderr.destroy();
    };
    child.on("exit", cutOff);
    this.#signal.addEventListener("abort", cutOff, { once: true });
    child.on("close", (exitCode, killedBy) => {
      this.#signal.removeEventListener("abort", cutOff);
      const [stdout, stderr] = [this.#stdout.join(""), this.#stderr.join("")];
      if (exitCode === 0 && !isCutOff) return this.#result.resolve({ stdout, stderr });
      const how = killedBy ? `killed by ${killedBy}` : describeExit(exitCode);
      const last = endOfOutput(stderr || stdout);
      const reason = last === "" ? how : `${how}: ${last}`;
      return this.#result.reject(this.#failure(reason, exitCode, killedBy));
    });
  }

  #failure(
    reason: string,
    exitCode: number | null = null,
    killedBy: NodeJS.Signals | null = null,
  ): CommandError {
    const why = this.#signal.aborted ? `${reason} (${String(this.#signal.reason)})` : reason;
    return new CommandError("COMMAND_FAILED", `Cannot run "${this.#words.join(" ")}": ${why}`, {
      cause: this.#startError,
      exitCode: exitCode ?? undefined,
      signal: killedBy ?? undefined,
      stderr: this.#stderr.join(""),
    });
  }
}

/** How much of a program's output is shown, in characters. Messages end up in logs and events. */
const maxShownLength = 1000;

/** The last lines of an output, at most five. */
function endOfOutput(output: string): string {
  const lines = output.trimEnd().split("\n").slice(-5).join("; ").trim();
  return lines.length > maxShownLength ? `…${lines.slice(-maxShownLength)}` : lines;
}

function describeExit(code: number | null): string {
  return code === 0 ? "its output did not end" : `exit code ${code}`;
}

function timeoutError(timeoutMs: number): Error {
  return new DOMException(`It took longer than ${timeoutMs / 1000} s`, "TimeoutError");
}

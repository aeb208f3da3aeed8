import { Readable } from "node:stream";
import { CodedError } from "../errors.ts";

/** Options of {@link runCommand}. */
export interface RunCommandOptions {
  readonly cwd?: string | undefined;
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
  /** What standard input reads; the program may begin before a stream has anything. @default closed at once */
  readonly input?: string | Uint8Array | Readable | undefined;
  /** Kills the process (SIGKILL) and fails. */
  readonly signal?: AbortSignal | undefined;
  /** Kills the process and fails after this many milliseconds. @default no limit */
  readonly timeoutMs?: number | undefined;
  /** Sees each piece of standard error and output as it comes. */
  readonly onOutput?: ((text: string) => void) | undefined;
}

/** What {@link runCommand} returns. */
export interface CommandResult {
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs a program to its end and returns what it printed.
 *
 * The program has ended when its output has, which a process that it started may hold open; after an abort or
 * timeout only the program itself is waited for.
 *
 * @throws {CodedError} code `COMMAND_FAILED` with facts `exitCode, signal, stderr` when it cannot be
 * started, exits non-zero, is killed or takes too long
 */
export async function runCommand(
  file: string,
  args: readonly string[] = [],
  options: RunCommandOptions = {},
): Promise<CommandResult> {
  const limits = [options.signal, timeLimit(options.timeoutMs)].filter((s) => s !== undefined);
  const signal = limits.length === 0 ? undefined : AbortSignal.any(limits);
  // Loaded by the first command: the agent of a cell answers before it runs one.
  const { spawn } = process.getBuiltinModule("node:child_process");
  const child = spawn(file, args, {
    cwd: options.cwd,
    env: options.env,
    stdio: ["pipe", "pipe", "pipe"],
    ...(signal && { signal, killSignal: "SIGKILL" as const }),
  });
  const out: string[] = [];
  const err: string[] = [];
  const { promise, resolve, reject } = Promise.withResolvers<CommandResult>();
  let startError: Error | undefined;
  child.on("error", (error) => {
    startError = error;
    if (child.pid === undefined) reject(failure(error.message));
  });
  // Where no descriptor is left there are no pipes, whatever their type says.
  if ((child.stdout as Readable | undefined) === undefined) return await promise;
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    out.push(text);
    options.onOutput?.(text);
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    err.push(text);
    options.onOutput?.(text);
  });
  // A program may exit without reading its input.
  child.stdin.on("error", () => {});
  if (options.input instanceof Readable) options.input.pipe(child.stdin);
  else child.stdin.end(options.input);
  // A process that the program has started may hold its output open after its end.
  let isCutOff = false;
  const cutOff = (): void => {
    if (!signal?.aborted || (child.exitCode === null && child.signalCode === null)) return;
    isCutOff = true;
    child.stdout.destroy();
    child.stderr.destroy();
  };
  child.on("exit", cutOff);
  signal?.addEventListener("abort", cutOff, { once: true });
  child.on("close", (code, killedBy) => {
    signal?.removeEventListener("abort", cutOff);
    if (code === 0 && !isCutOff) return resolve({ stdout: out.join(""), stderr: err.join("") });
    const how = killedBy ? `killed by ${killedBy}` : describeExit(code);
    const last = (err.join("") || out.join("")).trim().split("\n").slice(-5).join("; ");
    return reject(failure(last === "" ? how : `${how}: ${last}`, code, killedBy));
  });
  return await promise;

  function failure(reason: string, exitCode: number | null = null, killedBy: string | null = null) {
    const why = signal?.aborted ? `${reason} (${String(signal.reason)})` : reason;
    return new CodedError("COMMAND_FAILED", `Cannot run "${[file, ...args].join(" ")}": ${why}`, {
      cause: startError,
      facts: { exitCode, signal: killedBy, stderr: err.join("") },
    });
  }
}

function describeExit(code: number | null): string {
  return code === 0 ? "its output did not end" : `exit code ${code}`;
}

function timeLimit(timeoutMs: number | undefined): AbortSignal | undefined {
  return timeoutMs === undefined ? undefined : AbortSignal.timeout(timeoutMs);
}

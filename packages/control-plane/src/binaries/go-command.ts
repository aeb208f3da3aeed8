import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { hasPipes, isSystemError } from "@kip/base";
import { ControlPlaneError } from "../errors.ts";

/** How to call Go. */
export interface GoCommandOptions {
  /** The go command, by path or name. */
  readonly go: string;
  readonly directory: string;
  /** Environment variables on top of this process's own. */
  readonly variables: Readonly<Record<string, string>>;
  /** Sees each line of standard error as it comes. */
  readonly onLine?: ((line: string) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** How long Go may take to stop its compilers and remove what they were writing. */
const stopGraceMs = 10_000;
const shownLines = 5;

/**
 * Runs the go command; resolves with its standard output. When abandoned it is interrupted, as by
 * Ctrl-C, and given the time to clean up; it does not outlive this process either.
 *
 * @throws {ControlPlaneError} `GO_MISSING` if there is no Go toolchain
 * @throws {ControlPlaneError} `GO_FAILED` with its last lines
 */
export async function runGo(args: readonly string[], options: GoCommandOptions): Promise<string> {
  options.signal?.throwIfAborted();
  const variables = Object.entries(options.variables).map(([name, value]) => `${name}=${value}`);
  // env(1) adds to the environment, and PR_SET_PDEATHSIG ends Go with us; both become Go itself.
  const child = spawn(
    "setpriv",
    ["--pdeathsig", "INT", "--", "env", ...variables, options.go, ...args],
    { cwd: options.directory, stdio: ["ignore", "pipe", "pipe"], detached: true },
  );
  const { promise, resolve, reject } = Promise.withResolvers<number | null>();
  child.once("error", reject);
  child.once("close", resolve);
  const output: string[] = [];
  const errors: string[] = [];
  if (hasPipes(child)) {
    child.stdout.setEncoding("utf8").on("data", (text: string) => output.push(text));
    createInterface({ input: child.stderr }).on("line", (line) => {
      errors.push(line);
      if (errors.length > 200) errors.shift();
      options.onLine?.(line);
    });
  }

  let killTimer: NodeJS.Timeout | undefined;
  const interrupt = (): void => {
    child.kill("SIGINT");
    killTimer = setTimeout(() => child.kill("SIGKILL"), stopGraceMs);
  };
  options.signal?.addEventListener("abort", interrupt, { once: true });
  try {
    const code = await promise;
    options.signal?.throwIfAborted();
    if (code === 0) return output.join("");
    // env(1) says so when there is no such command.
    if (code === 127 || code === 126) throw missing();
    const last = errors.slice(-shownLines).join("; ");
    throw new ControlPlaneError("GO_FAILED", `Cannot run "go ${args[0]}": ${last}`, {
      facts: { exitCode: code },
    });
  } catch (error) {
    if (isSystemError(error, "ENOENT")) throw missing(error);
    throw error;
  } finally {
    clearTimeout(killTimer);
    options.signal?.removeEventListener("abort", interrupt);
  }
}

function missing(cause?: unknown): ControlPlaneError {
  return new ControlPlaneError("GO_MISSING", "Cannot run Go: it is not installed", { cause });
}

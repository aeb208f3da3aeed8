import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { hasPipes, isSystemError } from "@kip/base";
import { ControlPlaneError } from "../errors.ts";

/** Options of {@link runGo}. */
export interface GoCommandOptions {
  /** The go command, a path or name. */
  readonly go: string;
  readonly directory: string;
  /** Environment variables in addition to this process's own. */
  readonly variables: Readonly<Record<string, string>>;
  /** Called with each line of standard error as it arrives. */
  readonly onLine?: ((line: string) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** How long Go may take to stop its compilers and remove their incomplete files, milliseconds. */
const stopGraceMs = 10_000;
const shownLines = 5;

/**
 * Runs the go command and resolves with its standard output. An abort interrupts it, like Ctrl-C, and leaves it time to clean
 * up. It does not outlive this process either.
 *
 * @throws {ControlPlaneError} `GO_MISSING` if there is no Go toolchain
 * @throws {ControlPlaneError} `GO_FAILED` with its last lines
 */
export async function runGo(args: readonly string[], options: GoCommandOptions): Promise<string> {
  options.signal?.throwIfAborted();
  const variables = Object.entries(options.variables).map(([name, value]) => `${name}=${value}`);
  // env(1) adds to the environment, and PR_SET_PDEATHSIG ends Go together with this process. Both are replaced by Go through
  // exec.
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
    // The exit codes of env(1) if the command does not exist or cannot be run.
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

import { spawn, type ChildProcessByStdio } from "node:child_process";
import type { Readable } from "node:stream";
import { hasPipes } from "@kip/base";
import { K8sError } from "../errors.ts";

/** One run of an exec plugin. */
export interface PluginRun {
  /** Program and arguments. */
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The kubeconfig's advice for a missing program. */
  readonly installHint: string | undefined;
  /** Ends the run with all processes that the plugin started. */
  readonly signal: AbortSignal;
}

/** Most that a plugin may print, bytes. */
const maxOutputBytes = 1024 * 1024;
const maxErrorBytes = 4096;

/**
 * Runs an exec plugin to its end and returns what it printed. It has no input, and is a process group of
 * its own: a plugin that is ended may be a script that waits for another program.
 *
 * @throws {K8sError} code `K8S_CREDENTIALS_FAILED`
 */
export async function runPlugin({ command, env, installHint, signal }: PluginRun): Promise<string> {
  const [program = ""] = command;
  const failed = (reason: string, cause?: unknown): K8sError =>
    new K8sError("K8S_CREDENTIALS_FAILED", `Cannot run credential plugin "${program}": ${reason}`, {
      cause,
      retryable: true,
      remedy: installHint,
    });
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const child = startPlugin(command, env, failed);
  child.on("error", (error) => reject(failed(error.message, error)));
  if (!hasPipes(child)) return await promise;
  const end = (error: K8sError): void => {
    reject(error);
    child.stdout.destroy();
    child.stderr.destroy();
    try {
      if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
    } catch {
      // All of them have ended.
    }
  };
  const onAbort = (): void => end(failed("it was ended", signal.reason));
  const output: Buffer[] = [];
  let outputBytes = 0;
  let errorOutput = "";
  child.stdout.on("data", (chunk: Buffer) => {
    output.push(chunk);
    outputBytes += chunk.length;
    if (outputBytes > maxOutputBytes) end(failed("it prints more than 1 MiB"));
  });
  child.stderr.on("data", (chunk: Buffer) => {
    errorOutput = (errorOutput + chunk.toString()).slice(-maxErrorBytes);
  });
  child.on("close", (code, killedBy) => {
    if (code === 0) return resolve(Buffer.concat(output).toString());
    const how = killedBy === null ? `exit code ${code}` : `ended by ${killedBy}`;
    const last = errorOutput.trim().split("\n").slice(-5).join("; ");
    return reject(failed(last === "" ? how : `${how}: ${last}`));
  });
  if (signal.aborted) onAbort();
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    return await promise;
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

/** Node throws some failures of a start, such as arguments that are too long, and reports the rest by an event. */
function startPlugin(
  [program = "", ...args]: readonly string[],
  env: PluginRun["env"],
  failed: (reason: string, cause: unknown) => K8sError,
): ChildProcessByStdio<null, Readable, Readable> {
  try {
    return spawn(program, args, { env, stdio: ["ignore", "pipe", "pipe"], detached: true });
  } catch (error) {
    // What Node says of an argument that it does not take quotes it: it may be a secret.
    if (!(error instanceof Error) || !("syscall" in error))
      throw failed("its arguments or variables are not valid", undefined);
    throw failed(error.message, error);
  }
}

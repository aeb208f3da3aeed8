import { spawn, type ChildProcessByStdio } from "node:child_process";
import type { Readable } from "node:stream";
import { hasPipes } from "@kip/base";
import { K8sError } from "../errors.ts";

/** One run of an exec plugin. */
export interface PluginRun {
  /** Program and arguments. */
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The kubeconfig's hint for installing a missing program. */
  readonly installHint: string | undefined;
  /** Aborting it ends all processes that the plugin started. */
  readonly signal: AbortSignal;
}

/** Most output of a plugin, bytes. */
const maxOutputBytes = 1024 * 1024;
const maxErrorBytes = 4096;

/**
 * Runs an exec plugin to its end and returns its output. The plugin has no input. It gets a process group of its own, because
 * it may be a script that is waiting for another program when it has to be killed.
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
      // All processes have already ended.
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

/** Some failures to start, such as arguments that are too long, are thrown by Node. It reports others by an event. */
function startPlugin(
  [program = "", ...args]: readonly string[],
  env: PluginRun["env"],
  failed: (reason: string, cause: unknown) => K8sError,
): ChildProcessByStdio<null, Readable, Readable> {
  try {
    return spawn(program, args, { env, stdio: ["ignore", "pipe", "pipe"], detached: true });
  } catch (error) {
    // Node's message quotes the invalid argument, which may be a secret.
    if (!(error instanceof Error) || !("syscall" in error))
      throw failed("its arguments or variables are not valid", undefined);
    throw failed(error.message, error);
  }
}

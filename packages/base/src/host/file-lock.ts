import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { hasPipes } from "./node-objects.ts";
import { LockError } from "../errors.ts";

/** Options of {@link acquireFileLock}. */
export interface FileLockOptions {
  /** What to do while another process holds the lock. @default "wait" */
  readonly whenHeld?: "wait" | "fail" | undefined;
  /** Called once if the lock is held and this call will wait for it. */
  readonly onWait?: (() => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

const conflictExitCode = 75;

/**
 * Takes an exclusive lock on a file (flock(2)). Creates the file if it is absent.
 *
 * A small child process holds the lock, and its standard input comes from this process. However this process ends, the kernel
 * then releases the lock, so no lock is ever stale.
 *
 * @throws {LockError} `LOCK_HELD` if another process has it and `whenHeld` is "fail"
 * @throws {LockError} `LOCK_UNAVAILABLE` if the lock cannot be taken for another reason
 */
export async function acquireFileLock(
  path: string,
  options: FileLockOptions = {},
): Promise<AsyncDisposable> {
  const first = await tryLock(path, { ...options, isBlocking: false });
  if (first) return first;
  if (options.whenHeld === "fail")
    throw new LockError("LOCK_HELD", `Cannot lock "${path}": another process holds it`);
  options.onWait?.();
  const second = await tryLock(path, { ...options, isBlocking: true });
  if (second) return second;
  throw new LockError("LOCK_UNAVAILABLE", `Cannot lock "${path}": flock gave up waiting`);
}

async function tryLock(
  path: string,
  options: Pick<FileLockOptions, "signal"> & { readonly isBlocking: boolean },
): Promise<AsyncDisposable | undefined> {
  options.signal?.throwIfAborted();
  const mode = options.isBlocking ? [] : ["--nonblock"];
  const holder = spawn(
    "flock",
    // The lock is one process. Without --no-fork, killing flock would leave its child waiting.
    ["--exclusive", "--no-fork", `--conflict-exit-code=${conflictExitCode}`, ...mode, path].concat([
      "sh",
      "-c",
      "echo locked; exec cat >/dev/null",
    ]),
    // A process group of its own, so that Ctrl-C in a terminal does not release the lock before this process is done.
    { stdio: ["pipe", "pipe", "pipe"], detached: true },
  );
  const errors: string[] = [];
  const { promise, resolve, reject } = Promise.withResolvers<AsyncDisposable | undefined>();
  holder.once("error", (error) => reject(unavailable(path, error.message, error)));
  if (!hasPipes(holder)) return await promise;
  holder.stderr.setEncoding("utf8").on("data", (text: string) => errors.push(text));
  const onAbort = (): void => void holder.kill("SIGKILL");
  options.signal?.addEventListener("abort", onAbort, { once: true });
  holder.stdout.once("data", () => resolve(release(holder)));
  holder.once("close", (code) => {
    if (code === conflictExitCode) resolve(undefined);
    else if (options.signal?.aborted) reject(asError(options.signal.reason));
    else reject(unavailable(path, errors.join("").trim() || `flock ended with code ${code}`));
  });
  try {
    return await promise;
  } finally {
    options.signal?.removeEventListener("abort", onAbort);
  }
}

function release(holder: ChildProcess): AsyncDisposable {
  // The lock alone must not keep this process alive.
  holder.unref();
  return {
    async [Symbol.asyncDispose]() {
      if (holder.exitCode !== null || holder.signalCode !== null) return;
      const gone = once(holder, "exit");
      holder.ref();
      holder.stdin?.end();
      await gone;
    },
  };
}

function unavailable(path: string, reason: string, cause?: unknown): LockError {
  return new LockError("LOCK_UNAVAILABLE", `Cannot lock "${path}": ${reason}`, {
    cause,
    remedy: `Install "flock" (package util-linux) and check that the directory is writable`,
  });
}

function asError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error("Aborted");
}

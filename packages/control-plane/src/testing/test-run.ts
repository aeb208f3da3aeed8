import { once } from "node:events";
import { rm } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { isSystemError } from "@kip/base";

/**
 * Ties the shared control plane of a directory to this process: it ends when the returned object is disposed of, and when
 * this process ends, even by SIGKILL.
 *
 * @param directory exists
 */
export async function openTestRun(directory: string): Promise<AsyncDisposable> {
  const server = createServer((daemon) => {
    open.add(daemon);
    daemon.on("error", () => {}).on("close", () => open.delete(daemon));
  });
  const open = new Set<{ destroy(): void }>();
  const file = runFile(directory);
  await rm(file, { force: true });
  server.listen(file);
  await once(server, "listening");
  server.unref();
  return {
    [Symbol.asyncDispose]: async () => {
      const closed = once(server, "close");
      server.close();
      for (const daemon of open) daemon.destroy();
      await closed;
    },
  };
}

/** Calls `onEnd` when the test run of a directory has ended. A directory that no run was opened for has none to follow. */
export function followTestRun(directory: string, onEnd: () => void): void {
  const run = connect(runFile(directory));
  let hasRun = true;
  run.on("error", (error) => {
    hasRun = !isSystemError(error, "ENOENT");
  });
  run.on("close", () => {
    if (hasRun) onEnd();
  });
  run.resume().unref();
}

function runFile(directory: string): string {
  return join(directory, "run");
}

import { once } from "node:events";
import { rm } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { isSystemError } from "@kip/base";

/**
 * Ties a directory's shared control plane to this process. It ends when the returned object is disposed of, or when this
 * process ends, even by SIGKILL.
 *
 * @param directory must exist
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

/** Calls `onEnd` when a directory's test run has ended. Does nothing if no run was opened for the directory. */
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

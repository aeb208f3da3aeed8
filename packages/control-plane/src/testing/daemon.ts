// Runs a control plane for tests. Ends after its last user has gone, and at once when its test run ends. Arguments: its
// directory; the cache of Kubernetes' programs; "shared" or "single"; Kubernetes' version, or empty; a folder for the log of
// kip's requests, or empty.
import { rm } from "node:fs/promises";
import { createServer, type Socket } from "node:net";
import { basename, join } from "node:path";
import { acquireFileLock, createLogger } from "@kip/base";
import { obtainBinaries } from "../binaries/obtain-binaries.ts";
import { findRelease, pinned } from "../binaries/pinned-version.ts";
import { startControlPlane } from "../start/start-control-plane.ts";
import { followTestRun } from "./test-run.ts";

/** How long a control plane shared by test files waits for the next file, milliseconds. */
const idleMs = 120_000;

const [directory = "", cacheDir = "", mode = "single", kubernetes = "", auditFolder = ""] =
  process.argv.slice(2);
const logger = createLogger();
const say = (line: string): void => void process.stderr.write(`${line}\n`);

const ending = new AbortController();
for (const signal of ["SIGTERM", "SIGINT"])
  process.once(signal, () => ending.abort(new Error(`${signal} received`)));
followTestRun(directory, () => ending.abort(new Error("The test run has ended")));
const { signal } = ending;

// Wait for an earlier daemon that is still stopping.
const lock = await acquireFileLock(join(directory, "daemon.lock"), { signal });
const release = kubernetes === "" ? pinned : findRelease(kubernetes);
const binaries = await obtainBinaries({ cacheDir, release, onProgress: say, logger, signal });
const controlPlane = await startControlPlane({
  binaries,
  dataDir: join(directory, "data"),
  logDir: join(directory, "log"),
  port: 0,
  auditLog: auditFolder === "" ? undefined : join(auditFolder, `${basename(directory)}.log`),
  logger,
  signal,
});

const socketPath = join(directory, "socket");
const users = new Set<Socket>();
let idle: NodeJS.Timeout | undefined;
let stopping: Promise<void> | undefined;
const server = createServer((user) => {
  clearTimeout(idle);
  users.add(user);
  user.on("error", () => {});
  user.on("data", (bytes) => {
    if (bytes.toString().includes("stop")) void stop();
  });
  user.on("close", () => {
    users.delete(user);
    if (users.size > 0 || stopping) return;
    clearTimeout(idle);
    idle = setTimeout(() => void stop(), mode === "shared" ? idleMs : 0);
  });
  user.write(
    `${JSON.stringify({
      version: controlPlane.version,
      server: controlPlane.server,
      ca: controlPlane.ca,
      adminKubeconfig: controlPlane.adminKubeconfig,
      kipKubeconfig: controlPlane.kipKubeconfig,
      kubectl: binaries.paths.kubectl,
    })}\n`,
  );
});
await rm(socketPath, { force: true });
server.listen(socketPath, () => {
  process.stdout.write("ready\n");
});
// The reader may be gone by the time this process ends.
process.stdout.on("error", () => {});
signal.addEventListener("abort", () => void stop(), { once: true });
if (signal.aborted) void stop();

async function stop(): Promise<void> {
  stopping ??= stopOnce();
  await stopping;
}

async function stopOnce(): Promise<void> {
  server.close(); // removes the socket, so the next user starts another daemon
  await controlPlane.stop();
  if (mode === "single") await rm(directory, { recursive: true, force: true });
  for (const user of users) user.destroy();
  await lock[Symbol.asyncDispose]();
}

import { once } from "node:events";
import { access, chmod, chown, mkdir, stat, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import path from "node:path";
import { errorText, runCommand, systemClock, type Logger, withTimeout } from "@kip/base";
import { forwardConnections, requireFreePort, type SupervisedProgram } from "@kip/control-plane";
import { parseReference, pushLayout } from "@kip/oci-image";
import { markerEnvironment } from "../cluster/processes.ts";
import { localRegistryHost } from "../cluster/layout.ts";
import { openPushGate } from "./push-gate.ts";
import { supervise } from "./supervise.ts";
import { KipError } from "../../errors.ts";

const program = "/usr/bin/docker-registry";

/** User and group of the program that stores images, and of the one that cells reach. The IDs below those of machines. */
const storingUser = 1_879_075_582;
const readingUser = 1_879_075_583;

/** How long the programs may take until they listen, milliseconds, and the time between two attempts. */
const startLimitMs = 10_000;
const retryMs = 50;

const logLimitBytes = 4 * 2 ** 20;
const dataLimitBytes = 20 * 2 ** 30;
const reserveBytes = 2 * 2 ** 30;

/** Options of {@link startRegistry}. */
export interface RegistryOptions {
  /** The host's address on the cells' network. */
  readonly address: string;
  /** TCP port, at `address` for cells and at 127.0.0.1 for users of this computer. */
  readonly port: number;
  /** Folder, created if absent. Only root may enter its parent. */
  readonly dir: string;
  readonly logFile: string;
  /** Maximum size of all images, bytes. @default 20 GiB */
  readonly limitBytes?: number | undefined;
  readonly logger: Logger;
  /** Cancels the start. */
  readonly signal?: AbortSignal | undefined;
}

/** Whether Debian's docker-registry is installed. Without it, cells can only pull from other registries. */
export async function hasRegistry(): Promise<boolean> {
  try {
    await access(program);
    return true;
  } catch {
    return false;
  }
}

/**
 * Starts the registry for the user's own images: two programs that share a folder.
 *
 * - Users of this computer push at 127.0.0.1, up to a size limit.
 * - Cells pull at `address` from a program that cannot write, by its configuration and because it runs as another user.
 *
 * Both run as users without a name, with an empty environment and without capabilities, and end with this process.
 *
 * @throws {ControlPlaneError} `PORT_TAKEN`
 * @throws {KipError} `LOCAL_REGISTRY_FAILED` if a program does not start; the signal's reason
 */
export async function startRegistry(options: RegistryOptions): Promise<AsyncDisposable> {
  const { address, port, dir } = options;
  for (const each of ["127.0.0.1", address]) await requireFreePort(port, each, "--registry-port");
  await prepareFolder(dir);
  await using started = new AsyncDisposableStack();
  const programs = [
    started.use(await startProgram("push", storingUser, options)),
    started.use(await startProgram("pull", readingUser, options)),
  ];
  const [push, pull] = [path.join(dir, "push", "socket"), path.join(dir, "pull", "socket")];
  await untilListening([push, pull], programs, options);
  const gate = {
    port,
    socket: push,
    dataDir: path.join(dir, "data"),
    limitBytes: options.limitBytes ?? dataLimitBytes,
    reserveBytes,
  };
  started.use(await openPushGate(gate));
  const to = { path: pull };
  started.use(await forwardConnections({ from: { address, port }, to, maxConnections: 512 }));
  return started.move();
}

/** Resolves when both programs accept connections. They do not report that, so this polls. */
async function untilListening(
  sockets: readonly string[],
  programs: readonly SupervisedProgram[],
  { logFile, signal }: RegistryOptions,
): Promise<void> {
  const failed = (reason: string): KipError =>
    new KipError("LOCAL_REGISTRY_FAILED", `Cannot start the local registry: ${reason}`, {
      remedy: `See ${logFile}`,
    });
  const failing = new AbortController();
  for (const program of programs)
    void program.failing.then(({ reason }) => failing.abort(failed(reason)));
  await withTimeout(
    async (limit) => {
      for (const socket of sockets)
        while (!(await isListening(socket))) await systemClock.sleep(retryMs, limit);
    },
    {
      limitMs: startLimitMs,
      clock: systemClock,
      signal: AbortSignal.any([failing.signal, ...(signal ? [signal] : [])]),
      error: () => failed(`it did not answer within ${startLimitMs / 1000} s`),
    },
  );
}

async function isListening(socketPath: string): Promise<boolean> {
  const socket = connect(socketPath);
  const isConnected = await once(socket, "connect").then(
    () => true,
    () => false,
  );
  socket.destroy();
  return isConnected;
}

/** Creates the folder of images, and a folder for the socket of each program. */
async function prepareFolder(dir: string): Promise<void> {
  await makeFolder(dir, 0, 0o755);
  await makeFolder(path.join(dir, "push"), storingUser, 0o700);
  await makeFolder(path.join(dir, "pull"), readingUser, 0o700);
  const data = path.join(dir, "data");
  const isOurs = await stat(data).then(
    ({ uid }) => uid === storingUser,
    () => true,
  );
  // In clusters that an earlier version of kip started, the registry ran as root.
  if (!isOurs) await runCommand("chown", ["-hR", `${storingUser}:${storingUser}`, data]);
  await makeFolder(data, storingUser, 0o755);
}

/** Creates a folder or corrects its mode, independent of the caller's umask and of earlier starts. */
async function makeFolder(folder: string, owner: number, mode: number): Promise<void> {
  await mkdir(folder, { recursive: true });
  await chown(folder, owner, owner);
  await chmod(folder, mode);
}

async function startProgram(
  kind: "push" | "pull",
  user: number,
  { dir, logFile, logger }: RegistryOptions,
): Promise<SupervisedProgram> {
  const isReading = kind === "pull";
  const document = {
    version: "0.1",
    log: { level: "warn", accesslog: { disabled: true } },
    storage: {
      filesystem: { rootdirectory: "data" },
      delete: { enabled: !isReading },
      maintenance: {
        readonly: { enabled: isReading },
        uploadpurging: { enabled: !isReading, age: "2h", interval: "10m", dryrun: false },
      },
    },
    // A relative path, because only root may enter the folders above.
    http: {
      net: "unix",
      addr: `${kind}/socket`,
      headers: { "X-Content-Type-Options": ["nosniff"] },
    },
  };
  const config = path.join(dir, `${kind}.json`);
  await writeFile(config, JSON.stringify(document));
  await chmod(config, 0o644);
  const ids = [`--reuid=${user}`, `--regid=${user}`, "--clear-groups"];
  const powers = ["--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"];
  const confined = ["setpriv", ...ids, ...powers, "--pdeathsig=KILL", "--"];
  return supervise(logger, {
    name: `registry-${kind}`,
    file: "/bin/sh",
    // One program writes files that the other one reads, so the caller's umask must not apply.
    args: ["-c", 'umask 022; exec "$@"', "sh", ...confined, program, "serve", `${kind}.json`],
    env: markerEnvironment(),
    directory: dir,
    logFile,
    logLimitBytes,
  });
}

/**
 * Pushes the image in an OCI layout folder to the local registry.
 *
 * @param port of the registry at 127.0.0.1
 * @throws {KipError} `LOCAL_REGISTRY_FAILED`; the signal's reason
 */
export async function pushToRegistry(
  layoutDir: string,
  name: string,
  port: number,
  signal?: AbortSignal,
): Promise<void> {
  const reference = `${localRegistryHost}/${name}`;
  const registries = [{ host: localRegistryHost, endpoint: `http://127.0.0.1:${port}` }];
  try {
    await pushLayout(layoutDir, parseReference(reference), { registries, signal });
  } catch (cause) {
    signal?.throwIfAborted();
    throw new KipError(
      "LOCAL_REGISTRY_FAILED",
      `Cannot push "${reference}" to the local registry: ${errorText(cause)}`,
      { cause },
    );
  }
}

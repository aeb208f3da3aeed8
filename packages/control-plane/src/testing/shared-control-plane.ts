import { spawn, type ChildProcessByStdio } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdir, mkdtemp, open, readFile } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import {
  acquireFileLock,
  decode,
  runCommand,
  type RunCommandOptions,
  isSystemError,
} from "@kip/base";
import { CertificateAuthority, type KeyPair } from "@kip/pki";
import { ControlPlaneError } from "../errors.ts";

/** A real control plane for tests. Several test files may use it at the same time. */
export interface SharedControlPlane extends AsyncDisposable {
  /** Kubernetes version, for example `v1.34.10`. */
  readonly version: string;
  /** URL of the API server. */
  readonly server: string;
  /** Certificate authority (PEM) of the API server, its clients and kubelets. */
  readonly ca: string;
  /** The administrator's kubeconfig. */
  readonly kubeconfigPath: string;
  /** The kubeconfig of user `kip`, with the rights that a virtual kubelet needs. */
  readonly kipKubeconfigPath: string;
  /** Path of kubectl. */
  readonly kubectlPath: string;
  /** Runs kubectl as the administrator and resolves with its standard output. */
  kubectl(args: readonly string[], options?: RunCommandOptions): Promise<string>;
  /** Creates a namespace for one test, ready for pods. Resolves with its name. */
  createNamespace(prefix?: string): Promise<string>;
  /** A certificate for a kubelet's HTTPS port that the API server accepts. */
  issueKubeletCertificate(node: string, addresses: readonly string[]): Promise<KeyPair>;
}

/** Options of {@link sharedControlPlane}. */
export interface SharedControlPlaneOptions {
  /**
   * Directory of one test run. Its first user starts the control plane, and others join. @default KIP_TEST_CONTROL_PLANE in the
   * environment, otherwise a new directory
   */
  readonly directory?: string;
  /** Cache directory of Kubernetes' programs. @default KIP_CACHE_DIR in the environment, otherwise /var/cache/kip */
  readonly cacheDir?: string;
  /**
   * Kubernetes version, as for `findRelease`. Empty means the pinned one. @default KIP_KUBERNETES_VERSION in the environment
   */
  readonly kubernetes?: string;
}

/** What the daemon sends to each client. */
const facts = decode.object({
  version: decode.string,
  server: decode.string,
  ca: decode.string,
  adminKubeconfig: decode.string,
  kipKubeconfig: decode.string,
  kubectl: decode.string,
});

/**
 * Starts a control plane for this test run, or joins the existing one. It ends some seconds after its last user has gone, even
 * if that user was killed.
 */
export async function sharedControlPlane(
  options: SharedControlPlaneOptions = {},
): Promise<SharedControlPlane> {
  const shared = options.directory ?? fromEnvironment("KIP_TEST_CONTROL_PLANE");
  const cacheDir = options.cacheDir ?? fromEnvironment("KIP_CACHE_DIR") ?? "/var/cache/kip";
  const kubernetes = options.kubernetes ?? fromEnvironment("KIP_KUBERNETES_VERSION") ?? "";
  const directory = shared ?? (await mkdtemp(join(tmpdir(), "kip-test-")));
  await mkdir(directory, { recursive: true });

  const socket = await joinOrStart({
    directory,
    cacheDir,
    kubernetes,
    isShared: shared !== undefined,
  });
  socket.on("error", () => {}); // the daemon's end shows in the calls that need it
  const [line] = await once(createInterface({ input: socket }), "line");
  socket.unref();
  return describe(facts(JSON.parse(String(line)), ""), { directory, socket });
}

/** Ends a test run's control plane at once, if there is one. Resolves when it is gone. */
export async function endSharedControlPlane(directory: string): Promise<void> {
  const socket = await tryConnect(directory);
  if (!socket) return;
  socket.on("error", () => {});
  socket.resume();
  socket.write("stop\n");
  await once(socket, "close");
}

interface ControlPlaneLocation {
  readonly directory: string;
  readonly cacheDir: string;
  readonly kubernetes: string;
  readonly isShared: boolean;
}

async function joinOrStart(where: ControlPlaneLocation): Promise<Socket> {
  await using _lock = await acquireFileLock(join(where.directory, "start.lock"));
  const running = await tryConnect(where.directory);
  if (running) return running;
  await startDaemon(where);
  const started = await tryConnect(where.directory);
  if (started) return started;
  throw new ControlPlaneError(
    "TEST_CONTROL_PLANE_LOST",
    "Cannot reach the test control plane: it ended",
  );
}

async function tryConnect(directory: string): Promise<Socket | undefined> {
  const socket = connect(join(directory, "socket"));
  try {
    await once(socket, "connect");
    return socket;
  } catch (error) {
    if (isSystemError(error, "ENOENT", "ECONNREFUSED")) return undefined;
    throw error;
  }
}

async function startDaemon({
  directory,
  cacheDir,
  kubernetes,
  isShared,
}: ControlPlaneLocation): Promise<void> {
  const logPath = join(directory, "daemon.log");
  await using log = await open(logPath, "a");
  const script = join(import.meta.dirname, "daemon.ts");
  const daemon = spawn(
    process.execPath,
    [
      script,
      directory,
      cacheDir,
      isShared ? "shared" : "single",
      kubernetes,
      fromEnvironment("KIP_AUDIT_LOG") ?? "",
    ],
    { detached: true, stdio: ["ignore", "pipe", log.fd] },
  ) as ChildProcessByStdio<null, Readable, null>; // what a file number for stderr means
  // It writes one word when it is ready, and closes its output when it ends.
  const seen: string[] = [];
  for await (const text of daemon.stdout.setEncoding("utf8")) {
    seen.push(String(text));
    break;
  }
  daemon.unref();
  if (seen.length > 0) return;
  throw new ControlPlaneError(
    "TEST_CONTROL_PLANE_LOST",
    `Cannot start the test control plane: ${(await readFile(logPath, "utf8")).trim().slice(-1500)}`,
  );
}

function describe(
  description: decode.Decoded<typeof facts>,
  { directory, socket }: { readonly directory: string; readonly socket: Socket },
): SharedControlPlane {
  const kubectl = async (args: readonly string[], options: RunCommandOptions = {}) => {
    const env = { ...options.env, HOME: directory, KUBECONFIG: description.adminKubeconfig };
    return (await runCommand(description.kubectl, args, { ...options, env })).stdout;
  };
  return {
    version: description.version,
    server: description.server,
    ca: description.ca,
    kubeconfigPath: description.adminKubeconfig,
    kipKubeconfigPath: description.kipKubeconfig,
    kubectlPath: description.kubectl,
    kubectl,
    async createNamespace(prefix = "test") {
      const name = `${prefix}-${randomBytes(4).toString("hex")}`;
      await kubectl(["create", "namespace", name]);
      // Pods are refused until the controllers have created the default service account.
      await kubectl([
        "wait",
        "-n",
        name,
        "--for=create",
        "--timeout=60s",
        "serviceaccount/default",
      ]);
      return name;
    },
    async issueKubeletCertificate(node, addresses) {
      const path = join(directory, "data", "pki", "ca");
      const [certificate, key] = await Promise.all(
        [`${path}.crt`, `${path}.key`].map(async (file) => await readFile(file, "utf8")),
      );
      const authority = await CertificateAuthority.load({
        certificate: certificate ?? "",
        key: key ?? "",
      });
      return await authority.issue({
        commonName: `system:node:${node}`.slice(0, 64),
        organizations: ["system:nodes"],
        dnsNames: [node],
        ipAddresses: addresses,
        usages: ["server"],
        validMs: 3_600_000,
      });
    },
    async [Symbol.asyncDispose]() {
      socket.ref();
      if (socket.closed) return;
      const closed = once(socket, "close");
      socket.end();
      await closed;
    },
  };
}

function fromEnvironment(name: string): string | undefined {
  // eslint-disable-next-line node/no-process-env -- a test run passes its directory this way
  return process.env[name];
}

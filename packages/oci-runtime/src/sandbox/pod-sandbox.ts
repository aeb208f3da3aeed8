import { chmod, mkdir, readFile, rename, rm, rmdir, statfs, writeFile } from "node:fs/promises";
import path from "node:path";
import {
  decode,
  errorText,
  hasCode,
  isKipError,
  KipError,
  type Decoded,
  type Logger,
} from "@kip/base";
import { makeMonitorCgroup } from "../spawn/monitor-cgroup.ts";
import { isNamespace, makeNamespaces, removeNamespaces } from "./namespaces.ts";
import { readHolder, startPidHolder } from "./pid-holder.ts";
import {
  cableName,
  connectCable,
  describeNetwork,
  disconnectCable,
  innerCommands,
  removeCable,
} from "./pod-network.ts";

/** Options of {@link createPodSandbox}. */
export interface PodSandboxOptions {
  /** Directory (on tmpfs) for the namespaces' files; the same as the runtime's. */
  readonly runDir: string;
  /** Name of the sandbox and of its network namespace in `/run/netns`: up to 11 letters, digits, `-`. @default "pod" */
  readonly name?: string;
  readonly hostname: string;
  /** IPv4 address of the pod. Absent: the pod uses the machine's own network. */
  readonly podIp?: string;
  /** Interface the pod's traffic goes through. @default the one with the default route */
  readonly hostInterface?: string;
  /** All containers see each other's processes. @default false */
  readonly shareProcessNamespace?: boolean;
  readonly logger: Logger;
}

/** What the containers of a pod share, as files that name Linux namespaces. */
export interface PodSandbox {
  readonly name: string;
  readonly hostname: string;
  /** Absent: the machine's own network. */
  readonly networkNamespace?: string;
  readonly ipcNamespace: string;
  /** Absent: the machine's own, with its host name. */
  readonly utsNamespace?: string;
  /** Absent: each container has its own. */
  readonly pidNamespace?: string;
  /** Directory shown as `/dev/shm` in every container. */
  readonly sharedMemoryDir?: string;
  /** cgroup v2 path below which each container has its own. */
  readonly cgroupParent: string;
}

const { boolean, number, object, optional, string } = decode;

/** Written when a sandbox is complete. */
const decodeRecord = object({
  name: string,
  hostname: string,
  network: optional(object({ podIp: string, hostInterface: string, cable: string, mtu: number })),
  isProcessNamespaceShared: boolean,
  sharedMemoryDir: optional(string),
});
type SandboxRecord = Decoded<typeof decodeRecord>;

/** File system type of tmpfs (`TMPFS_MAGIC`, linux/magic.h). */
const tmpfsType = 0x01_02_19_94;

/**
 * Makes the namespaces, the network and the cgroup that a pod's containers share. Idempotent: called
 * again, also by a later life of the agent, it takes over what is complete and makes anew what is not.
 *
 * The pod's address is routed to the cell and answered for on its link; it is never an address of
 * the cell's interface. Host-network pods share the machine's network and host name.
 * @throws {KipError} `POD_SANDBOX_FAILED`, `POD_NETWORK_INVALID`
 */
export async function createPodSandbox(options: PodSandboxOptions): Promise<PodSandbox> {
  const name = options.name ?? "pod";
  const files = sandboxFiles(options.runDir, name);
  const existing = await readRecord(files);
  if (existing && isSame(existing, options) && (await isComplete(existing, files))) {
    options.logger.debug("took over the pod's sandbox", { sandbox: name });
    return describe(existing, files);
  }
  await removePodSandbox({ runDir: options.runDir, name, logger: options.logger });
  try {
    const record = await build(name, files, options);
    return describe(record, files);
  } catch (error) {
    await removePodSandbox({ runDir: options.runDir, name, logger: options.logger });
    if (isKipError(error) && error.code !== "COMMAND_FAILED") throw error;
    throw new KipError(
      "POD_SANDBOX_FAILED",
      `Cannot make sandbox "${name}" for the pod: ${errorText(error)}`,
      { cause: error, retryable: true },
    );
  }
}

/** Frees all that {@link createPodSandbox} made. Call it when no container is left. Idempotent. */
export async function removePodSandbox(
  options: Pick<PodSandboxOptions, "runDir" | "name" | "logger">,
): Promise<void> {
  const name = options.name ?? "pod";
  const files = sandboxFiles(options.runDir, name);
  const record = await readRecord(files);
  const holder = await readHolder(files.holder);
  if (holder !== undefined) process.kill(holder, "SIGKILL");
  if (record?.network) await disconnectCable(record.network);
  else await removeCable(cableName(name)); // of a build that was not finished
  await removeNamespaces([files.ipc, files.uts, files.pid, files.net]);
  await rm(record?.sharedMemoryDir ?? sharedMemoryDir(name), { recursive: true, force: true });
  await rm(files.directory, { recursive: true, force: true });
  await rmdir(`/sys/fs/cgroup${cgroupParent(name)}`).catch((error: unknown) => {
    if (!hasCode(error, "ENOENT"))
      options.logger.warn("could not remove the pod's cgroup", { sandbox: name, err: error });
  });
}

interface SandboxFiles {
  readonly directory: string;
  readonly record: string;
  readonly holder: string;
  readonly ipc: string;
  readonly uts: string;
  readonly pid: string;
  readonly net: string;
}

function sandboxFiles(runDir: string, name: string): SandboxFiles {
  if (!/^[a-z0-9][a-z0-9-]{0,10}$/.test(name))
    throw new RangeError(`Not a sandbox name: "${name}"`);
  const directory = path.join(runDir, "sandboxes", name);
  return {
    directory,
    record: path.join(directory, "sandbox.json"),
    holder: path.join(directory, "holder.pid"),
    ipc: path.join(directory, "ipc"),
    uts: path.join(directory, "uts"),
    pid: path.join(directory, "pid"),
    // Where `ip netns` looks, so that an operator can enter it by name.
    net: path.join("/run/netns", name),
  };
}

async function build(
  name: string,
  files: SandboxFiles,
  options: PodSandboxOptions,
): Promise<SandboxRecord> {
  await mkdir(files.directory, { recursive: true, mode: 0o700 });
  const network =
    options.podIp === undefined
      ? undefined
      : await describeNetwork(name, options.podIp, options.hostInterface);
  await makeNamespaces(
    { ipc: files.ipc, ...(network && { uts: files.uts, net: files.net }) },
    network ? innerCommands(network, process.pid) : "",
  );
  if (network) await connectCable(network);
  if (options.shareProcessNamespace) await startHolder(files);
  const memory = await makeSharedMemory(name);
  const record: SandboxRecord = {
    name,
    hostname: options.hostname,
    ...(network && { network }),
    isProcessNamespaceShared: options.shareProcessNamespace ?? false,
    ...(memory !== undefined && { sharedMemoryDir: memory }),
  };
  await writeFile(`${files.record}.new`, JSON.stringify(record));
  await rename(`${files.record}.new`, files.record);
  return record;
}

async function startHolder(files: SandboxFiles): Promise<void> {
  await makeMonitorCgroup();
  await writeFile(files.holder, String(await startPidHolder(files.pid)));
}

/**
 * A directory on the machine's own tmpfs: needs no mount, and the pod is alone on the machine. Where
 * there is none each container gets a /dev/shm of its own.
 */
async function makeSharedMemory(name: string): Promise<string | undefined> {
  const info = await statfs("/dev/shm").catch(() => undefined);
  if (info?.type !== tmpfsType) return undefined;
  const directory = sharedMemoryDir(name);
  await mkdir(directory, { recursive: true });
  await chmod(directory, 0o1777); // the mode given to mkdir is subject to the umask
  return directory;
}

function sharedMemoryDir(name: string): string {
  return `/dev/shm/kip-${name}`;
}

function cgroupParent(name: string): string {
  return `/kip/${name}`;
}

async function readRecord(files: SandboxFiles): Promise<SandboxRecord | undefined> {
  const text = await readFile(files.record, "utf8").catch((error: unknown) => {
    if (hasCode(error, "ENOENT")) return undefined;
    throw error;
  });
  return text === undefined ? undefined : decodeRecord(JSON.parse(text), files.record);
}

function isSame(record: SandboxRecord, options: PodSandboxOptions): boolean {
  return (
    record.hostname === options.hostname &&
    record.network?.podIp === options.podIp &&
    (options.hostInterface === undefined ||
      record.network?.hostInterface === options.hostInterface) &&
    record.isProcessNamespaceShared === (options.shareProcessNamespace ?? false)
  );
}

async function isComplete(record: SandboxRecord, files: SandboxFiles): Promise<boolean> {
  const needed = [
    files.ipc,
    ...(record.network ? [files.net, files.uts] : []),
    ...(record.isProcessNamespaceShared ? [files.pid] : []),
  ];
  for (const file of needed) if (!(await isNamespace(file))) return false;
  return !record.isProcessNamespaceShared || (await readHolder(files.holder)) !== undefined;
}

function describe(record: SandboxRecord, files: SandboxFiles): PodSandbox {
  return {
    name: record.name,
    hostname: record.hostname,
    ipcNamespace: files.ipc,
    ...(record.network && { networkNamespace: files.net, utsNamespace: files.uts }),
    ...(record.isProcessNamespaceShared && { pidNamespace: files.pid }),
    ...(record.sharedMemoryDir !== undefined && { sharedMemoryDir: record.sharedMemoryDir }),
    cgroupParent: cgroupParent(record.name),
  };
}

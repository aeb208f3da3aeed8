import { mkdirSync } from "node:fs";
import { rm, rmdir } from "node:fs/promises";
import { errorText, isSystemError, runCommand, type Logger } from "@kip/base";
import type { IdRange, PodSandbox } from "../contract/pod-sandbox.ts";
import { RuntimeError } from "../errors.ts";
import { makeMonitorCgroup } from "../spawn/monitor-cgroup.ts";
import { inNewNamespaces, isNamespace, removeNamespaces } from "./namespaces.ts";
import { findPidHolder, startPidHolder } from "./pid-holder.ts";
import { isIpv6Network, setUpCellIpv6, type CellIpv6 } from "./pod-ipv6.ts";
import {
  cableName,
  describeNetwork,
  disconnectCable,
  mainInterface,
  removeCable,
  type PodNetwork,
} from "./pod-network.ts";
import { PreparedSandbox } from "./prepared-sandbox.ts";
import {
  readSandbox,
  sandboxFiles,
  writeSandbox,
  type SandboxFiles,
  type SandboxRecord,
} from "./sandbox-files.ts";
import { makeSharedMemory, removeSharedMemory, sharedMemoryDir } from "./shared-memory.ts";
import { setSysctls, type Sysctl } from "./sysctls.ts";
import { makeUserNamespace } from "./user-namespace.ts";

/** Options of {@link createPodSandbox}. */
export interface PodSandboxOptions {
  /** Directory (on tmpfs) for files that name namespaces. The same as the runtime's. */
  readonly runDir: string;
  /** Name of the sandbox and of its network namespace in `/run/netns`: up to 11 letters, digits and `-`. @default "pod" */
  readonly name?: string | undefined;
  readonly hostname: string;
  /** IPv4 address of the pod. Absent: the pod uses the machine's own network. */
  readonly podIp?: string | undefined;
  /** IPv6 configuration. If the pod has no address of its own, only the machine gets one. */
  readonly ipv6?: (CellIpv6 & { readonly podIp?: string | undefined }) | undefined;
  /** Interface for the pod's traffic. @default the one with the default route */
  readonly hostInterface?: string | undefined;
  /** Whether all containers see each other's processes. @default false */
  readonly shareProcessNamespace?: boolean | undefined;
  /** Users and groups of the pod's own user namespace, which owns its other namespaces. @default the machine's users */
  readonly ownUsers?: IdRange | undefined;
  /**
   * Kernel settings. Network settings only for a pod with an address of its own. @default just containerd's: low ports and ping
   * for all users
   */
  readonly sysctls?: readonly Sysctl[] | undefined;
  /** A sandbox from {@link preparePodSandbox}. It is used, or ended if it does not fit. */
  readonly prepared?: PreparedSandbox | undefined;
  readonly logger: Logger;
}

/**
 * Creates the namespaces, the network and the cgroup that a pod's containers share. Idempotent: another call, even by a later
 * run of the agent, takes over a complete sandbox and replaces an incomplete one.
 *
 * The pod's address is routed to the cell, which answers for it on its link. It is never an address of the cell's interface.
 * Host-network pods share the machine's network and host name.
 *
 * @throws {RuntimeError} `POD_SANDBOX_FAILED`, `POD_NETWORK_INVALID`
 */
export async function createPodSandbox(options: PodSandboxOptions): Promise<PodSandbox> {
  const name = options.name ?? "pod";
  const files = sandboxFiles(options.runDir, name);
  const existing = readSandbox(files);
  if (existing && isSame(existing, options) && (await isComplete(existing, files))) {
    options.logger.debug("Took over the pod's sandbox", { sandbox: name });
    return describe(existing, files);
  }
  const isFit = options.prepared?.name === name && options.podIp !== undefined && !options.ownUsers;
  const prepared = isFit && !existing ? options.prepared : undefined;
  if (!prepared) {
    await options.prepared?.abandon();
    await removePodSandbox({ runDir: options.runDir, name, logger: options.logger });
  }
  try {
    const record = await build(name, files, { ...options, prepared });
    return describe(record, files);
  } catch (error) {
    await prepared?.abandon();
    await removePodSandbox({ runDir: options.runDir, name, logger: options.logger });
    if (error instanceof RuntimeError) throw error;
    throw new RuntimeError(
      "POD_SANDBOX_FAILED",
      `Cannot make sandbox "${name}" for the pod: ${errorText(error)}`,
      { cause: error, retryable: true },
    );
  }
}

/**
 * Prepares a sandbox before its pod is known. It assumes that the pod has a network of its own, as most pods do. This does most
 * of the work of createPodSandbox() in advance.
 *
 * @returns undefined if there already is a sandbox, for a pod
 * @throws {CommandError} `COMMAND_FAILED`, after removing everything
 */
export async function preparePodSandbox(
  options: Pick<PodSandboxOptions, "runDir" | "name" | "logger">,
): Promise<PreparedSandbox | undefined> {
  const name = options.name ?? "pod";
  const files = sandboxFiles(options.runDir, name);
  if (readSandbox(files)) return undefined;
  await removePodSandbox(options);
  try {
    return await PreparedSandbox.make(name, files);
  } catch (error) {
    await removePodSandbox(options);
    throw error;
  }
}

/** Removes everything that {@link createPodSandbox} created. Call it when no container is left. Idempotent. */
export async function removePodSandbox(
  options: Pick<PodSandboxOptions, "runDir" | "name" | "logger">,
): Promise<void> {
  const name = options.name ?? "pod";
  const files = sandboxFiles(options.runDir, name);
  const record = readSandbox(files);
  // Killing it ends every process in the namespace.
  const holder = await findPidHolder(files.pid);
  if (holder !== undefined) end(holder);
  if (record?.network) await disconnectCable(record.network);
  else await removeCable(cableName(name)); // an incomplete sandbox
  await removeNamespaces([files.ipc, files.uts, files.pid, files.net, files.user]);
  await removeSharedMemory(record?.sharedMemoryDir ?? sharedMemoryDir(name));
  await rm(files.directory, { recursive: true, force: true });
  await rmdir(`/sys/fs/cgroup${cgroupParent(name)}`).catch((error: unknown) => {
    if (!isSystemError(error, "ENOENT"))
      options.logger.warn("Could not remove the pod's cgroup", { sandbox: name, err: error });
  });
}

/** Kills a process, which may already be ending. */
function end(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if (!isSystemError(error, "ESRCH")) throw error;
  }
}

async function build(
  name: string,
  files: SandboxFiles,
  options: PodSandboxOptions,
): Promise<SandboxRecord> {
  mkdirSync(files.directory, { recursive: true, mode: 0o700 });
  const { podIp, ownUsers, sysctls = [] } = options;
  const network = podIp === undefined ? undefined : networkOf(name, podIp, options);
  if (network) {
    const prepared = options.prepared ?? (await PreparedSandbox.make(name, files, ownUsers));
    await prepared.finish(network);
  } else {
    await makeOwnIpc(files, ownUsers);
    await setUpIpv6(options);
  }
  const { ipc, net, user } = files;
  await setSysctls(sysctls, { ipc, net: network && net, user: ownUsers && user });
  if (options.shareProcessNamespace) {
    await makeMonitorCgroup();
    await startPidHolder(files.pid, {
      user: ownUsers && files.user,
      joined: [files.ipc, ...(network ? [files.uts, files.net] : [])],
    });
  }
  const record: SandboxRecord = {
    name,
    hostname: options.hostname,
    network,
    isProcessNamespaceShared: options.shareProcessNamespace ?? false,
    ownUsers,
    sharedMemoryDir: await makeSharedMemory(name, ownUsers?.firstId ?? 0),
  };
  writeSandbox(files, record);
  return record;
}

/** For a pod that uses the machine's own network. */
async function makeOwnIpc({ ipc, user }: SandboxFiles, users?: IdRange): Promise<void> {
  if (users) return await makeUserNamespace({ ...users, file: user }, { ipc });
  const [file = "", ...args] = inNewNamespaces({ ipc });
  await runCommand(file, [...args, "/bin/true"]);
}

function networkOf(
  name: string,
  podIp: string,
  { hostInterface, ipv6 }: PodSandboxOptions,
): PodNetwork {
  const second = ipv6?.podIp === undefined ? undefined : { ...ipv6, podIp: ipv6.podIp };
  return describeNetwork(name, podIp, { hostInterface, ipv6: second });
}

/** For a pod that uses the machine's own network. */
async function setUpIpv6({ ipv6, hostInterface }: PodSandboxOptions): Promise<void> {
  if (ipv6 === undefined) return;
  if (!isIpv6Network({ ...ipv6, podIp: ipv6.machineIp }))
    throw new RuntimeError(
      "POD_NETWORK_INVALID",
      "Cannot set up IPv6: its addresses are not addresses",
    );
  await setUpCellIpv6(ipv6, hostInterface ?? mainInterface());
}

function cgroupParent(name: string): string {
  return `/kip/${name}`;
}

function isSame(record: SandboxRecord, options: PodSandboxOptions): boolean {
  return (
    record.hostname === options.hostname &&
    record.network?.podIp === options.podIp &&
    record.network?.ipv6?.podIp === options.ipv6?.podIp &&
    (options.hostInterface === undefined ||
      record.network?.hostInterface === options.hostInterface) &&
    record.isProcessNamespaceShared === (options.shareProcessNamespace ?? false) &&
    record.ownUsers?.firstId === options.ownUsers?.firstId &&
    record.ownUsers?.idCount === options.ownUsers?.idCount
  );
}

async function isComplete(record: SandboxRecord, files: SandboxFiles): Promise<boolean> {
  const needed = [
    files.ipc,
    ...(record.network ? [files.net, files.uts] : []),
    ...(record.isProcessNamespaceShared ? [files.pid] : []),
    ...(record.ownUsers ? [files.user] : []),
  ];
  for (const file of needed) if (!(await isNamespace(file))) return false;
  return !record.isProcessNamespaceShared || (await findPidHolder(files.pid)) !== undefined;
}

function describe(record: SandboxRecord, files: SandboxFiles): PodSandbox {
  return {
    name: record.name,
    hostname: record.hostname,
    ipcNamespace: files.ipc,
    userNamespace: record.ownUsers && { ...record.ownUsers, file: files.user },
    networkNamespace: record.network && files.net,
    utsNamespace: record.network && files.uts,
    pidNamespace: record.isProcessNamespaceShared ? files.pid : undefined,
    sharedMemoryDir: record.sharedMemoryDir,
    cgroupParent: cgroupParent(record.name),
  };
}

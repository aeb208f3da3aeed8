import { rm, stat } from "node:fs/promises";
import { runCommand } from "@kip/base";
import { CloudError } from "@kip/cloud";
import { confined, makeControlGroup } from "../host/control-group.ts";
import { readStart } from "../host/file-text.ts";
import { endProcessGroup, hasArgument, type ProcessGroup } from "../host/processes.ts";
import type { LocalImage } from "../host/image.ts";
import { reasonOf } from "../host/machine-error.ts";
import type { LocalNetwork } from "../network/local-network.ts";
import type { Accelerator } from "../qemu/accelerator.ts";
import type { MachineRecord } from "./machine-record.ts";
import type { MachineFiles } from "./machine-store.ts";
import type { MachineUser } from "../qemu/machine-user.ts";
import {
  macOf,
  networkCmdline,
  qemuArguments,
  tapOf,
  type QemuMachine,
} from "../qemu/qemu-arguments.ts";
import { startQemu } from "../qemu/qemu-process.ts";
import type { QemuFacts } from "../qemu/qemu-version.ts";
import { writeSeed } from "./seed.ts";

/** How long QEMU may take to end on request, milliseconds. */
const endLimitMs = 3000;

/** More than the length of a process ID that QEMU writes to a file. */
const pidFileBytes = 32;

/** Options for starting a machine. */
export interface StartMachineOptions {
  readonly record: MachineRecord;
  readonly files: MachineFiles;
  readonly image: LocalImage;
  readonly userData: Uint8Array;
  readonly network: LocalNetwork;
  readonly nameservers: readonly string[];
  readonly qemu: QemuFacts;
  readonly accelerator: Accelerator;
  readonly user: MachineUser;
  /** Called when the machine can be watched, before it runs. */
  readonly onPaused: () => Promise<void>;
  /** Called after each step. */
  readonly onStep: (name: string) => void;
}

/**
 * Creates the disks and the device of a machine, starts QEMU, which outlives this process, and boots the machine. Returns when
 * its CPUs are running. Callers hold the machine's lock.
 *
 * @throws {CloudError} `CLOUD_UNAVAILABLE` with QEMU's message
 */
export async function bootMachine(options: StartMachineOptions): Promise<void> {
  const { record, files, network } = options;
  await Promise.all([makeDisks(options), network.addTap(tapOf(record.slot))]);
  options.onStep("disk, seed and network device");
  try {
    using qemu = await startQemu({
      program: await machineProgram(options),
      args: bootArguments(options),
      logFile: files.log,
    });
    options.onStep("QEMU");
    await options.onPaused();
    await qemu.commands.execute("cont");
    options.onStep("run");
  } catch (error) {
    throw new CloudError(
      "CLOUD_UNAVAILABLE",
      `Cannot start machine "${record.name}": ${reasonOf(error)}`,
      { cause: error, remedy: "See what QEMU says; the machine's folder has its console" },
    );
  }
}

async function makeDisks(options: StartMachineOptions): Promise<void> {
  const { record, files, image, userData } = options;
  const { id: instanceId, name: hostname, rootDiskBytes } = record;
  const seed = { instanceId, hostname, userData, ...networkOf(options) };
  await Promise.all([
    createRootDisk(files.rootDisk, rootDiskBytes, { file: image.rootDisk, format: "raw" }),
    options.network.hasMetadata ? undefined : writeSeed(files.seed, seed),
  ]);
}

function bootArguments(options: StartMachineOptions): readonly string[] {
  const { record, files, image, network } = options;
  const words = networkCmdline({ ...networkOf(options), hostname: record.name });
  return qemuArguments({
    ...machineArguments(options),
    cmdline: `${image.cmdline} ${words}`,
    memory: { kind: "new" },
    seed: network.hasMetadata ? undefined : files.seed,
    hasPort: false,
  });
}

/** The network settings of a machine that boots. */
function networkOf({ record, network: { plan }, nameservers }: StartMachineOptions) {
  const address = `${record.managementIp}/${plan.prefixLength}`;
  return { address, gateway: plan.gateway, nameservers };
}

/**
 * QEMU's command, preceded by those that enter the machine's control group and the network namespace. Creates the control
 * group.
 */
export async function machineProgram({
  record: { controlGroup },
  network,
  qemu,
}: StartMachineOptions): Promise<readonly string[]> {
  const hasGroup = controlGroup !== undefined && (await makeControlGroup(controlGroup));
  const inGroup = confined(hasGroup ? controlGroup : undefined);
  return [...inGroup, "nsenter", `--net=${network.namespace.file}`, qemu.program];
}

/** The part of a machine's command line that depends on its record and files, however it starts. */
export function machineArguments(
  options: StartMachineOptions,
): Omit<QemuMachine, "cmdline" | "memory" | "seed" | "hasPort"> {
  const { record, files, image, qemu, accelerator, user } = options;
  return {
    id: record.id,
    architecture: image.architecture,
    qemuVersion: qemu.version,
    accelerator,
    cpus: record.cpus,
    memoryBytes: record.memoryBytes,
    kernel: image.kernel,
    initrd: image.initrd,
    rootDisk: files.rootDisk,
    console: files.console,
    control: files.control,
    command: files.command,
    pid: files.pid,
    tap: tapOf(record.slot),
    mac: macOf(record.managementIp),
    folder: files.folder,
    user,
  };
}

/** Creates a disk of whole sectors on top of another one. It keeps what is written to it. */
export async function createRootDisk(
  file: string,
  sizeBytes: number,
  below: { readonly file: string; readonly format: "raw" | "qcow2" },
): Promise<void> {
  await rm(file, { force: true }); // left by a start that was killed
  const backing = ["-F", below.format, "-b", below.file];
  await runCommand("qemu-img", ["create", "-q", "-f", "qcow2", ...backing, file, `${sizeBytes}`]);
}

/**
 * Ends QEMU without asking the guest. QEMU obeys SIGTERM at once, and otherwise is killed. Returns when no process of the
 * machine's user or control group is left, so that the next machine can have the same user, device and addresses.
 *
 * @throws {CloudError} `CLOUD_UNAVAILABLE` if one cannot be ended
 */
export async function endMachineProcess(
  record: Pick<MachineRecord, "userId" | "controlGroup">,
  files: MachineFiles,
): Promise<void> {
  await endProcessGroup(machineProcesses(record, files), endLimitMs);
}

/** A machine's processes: QEMU, and those that it created if a guest has broken into it. */
export function machineProcesses(
  { userId, controlGroup }: Pick<MachineRecord, "userId" | "controlGroup">,
  files: Pick<MachineFiles, "pid">,
): ProcessGroup {
  return { argument: files.pid, uid: userId, controlGroup };
}

/** Frees a machine's resources except its record and console. */
export async function freeMachine(
  record: MachineRecord,
  files: MachineFiles,
  network: LocalNetwork,
): Promise<void> {
  await network.removeTap(tapOf(record.slot));
  for (const file of [
    files.rootDisk,
    files.seed,
    files.control,
    files.command,
    files.pid,
    files.log,
  ])
    await rm(file, { force: true });
}

/** The machine's process ID, if it still belongs to the machine. */
export async function readMachinePid(files: MachineFiles): Promise<number | undefined> {
  // QEMU has the file open. A guest that has broken into QEMU can make the file arbitrarily large.
  const text = await readStart(files.pid, pidFileBytes);
  const pid = Number.parseInt(text, 10);
  return Number.isInteger(pid) && (await hasArgument(pid, files.pid)) ? pid : undefined;
}

/** Disk space of a file, bytes. 0 if it does not exist. */
export async function allocatedBytes(file: string): Promise<number> {
  return await stat(file).then(
    (found) => found.blocks * 512,
    () => 0,
  );
}

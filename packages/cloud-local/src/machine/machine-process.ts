import { open, readFile, rm, stat } from "node:fs/promises";
import { isKipError, runCommand } from "@kip/base";
import { CloudError } from "@kip/cloud";
import { firstLine } from "../host/first-line.ts";
import { endProcesses, hasArgument } from "../host/processes.ts";
import type { LocalImage } from "../image.ts";
import type { LocalNetwork } from "../network/local-network.ts";
import type { Accelerator } from "./accelerator.ts";
import type { MachineRecord } from "./machine-record.ts";
import type { MachineFiles } from "./machine-store.ts";
import { macOf, networkCmdline, qemuArguments, tapOf } from "./qemu-arguments.ts";
import { writeSeed } from "./seed.ts";

/** How long QEMU may take until the machine runs, and how long to end after it was asked to. */
const startLimitMs = 30_000;
const endLimitMs = 3000;

/** What a machine is started from. */
export interface StartMachineOptions {
  readonly record: MachineRecord;
  readonly files: MachineFiles;
  readonly image: LocalImage;
  readonly userData: string;
  readonly network: LocalNetwork;
  readonly nameservers: readonly string[];
  readonly qemu: string;
  readonly accelerator: Accelerator;
}

/**
 * Makes the disks and the device of a machine and starts QEMU, which outlives this process. Returns
 * when the machine's processors run. Callers hold the machine's lock.
 *
 * @throws {CloudError} `CLOUD_UNAVAILABLE` with what QEMU said
 */
export async function startMachine(options: StartMachineOptions): Promise<void> {
  const { record, files, image, network, nameservers } = options;
  const { plan } = network;
  const address = `${record.managementIp}/${plan.prefixLength}`;
  const tap = tapOf(record.slot);
  await Promise.all([
    createRootDisk(record, files, image),
    writeSeed(files.seed, {
      instanceId: record.id,
      hostname: record.name,
      userData: options.userData,
      address,
      gateway: plan.gateway,
      nameservers,
    }),
    network.addTap(tap),
  ]);
  const cmdline = networkCmdline({
    address,
    gateway: plan.gateway,
    nameservers,
    hostname: record.name,
  });
  const qemu = qemuArguments({
    id: record.id,
    accelerator: options.accelerator,
    cpus: record.cpus,
    memoryBytes: record.memoryBytes,
    kernel: image.kernel,
    initrd: image.initrd,
    cmdline: `${image.cmdline} ${cmdline}`,
    rootDisk: files.rootDisk,
    seed: files.seed,
    console: files.console,
    control: files.control,
    command: files.command,
    pid: files.pid,
    tap,
    mac: macOf(record.managementIp),
  });
  try {
    await runCommand("nsenter", [`--net=${network.namespace.file}`, options.qemu, ...qemu], {
      timeoutMs: startLimitMs,
      cwd: "/",
    });
  } catch (error) {
    const said = isKipError(error) ? firstLine(error.facts["stderr"]) : "";
    throw new CloudError(
      "CLOUD_UNAVAILABLE",
      `Cannot start machine "${record.name}": ${said || "QEMU did not start"}`,
      { cause: error, remedy: "See what QEMU says; the machine's folder has its console" },
    );
  }
}

async function createRootDisk(
  record: MachineRecord,
  files: MachineFiles,
  image: LocalImage,
): Promise<void> {
  await rm(files.rootDisk, { force: true }); // of a start that was killed
  const backing = ["-F", "raw", "-b", image.rootDisk];
  const size = String(Math.ceil(record.rootDiskBytes / 512) * 512);
  await runCommand("qemu-img", ["create", "-q", "-f", "qcow2", ...backing, files.rootDisk, size]);
}

/**
 * Ends QEMU, without the guest: it obeys SIGTERM at once, and is killed if it does not. Returns when no
 * process of the machine is left.
 */
export async function endMachineProcess(files: MachineFiles): Promise<void> {
  await endProcesses(files.pid, endLimitMs);
}

/** Frees what a machine holds besides its record and console. */
export async function freeMachine(
  record: MachineRecord,
  files: MachineFiles,
  network: LocalNetwork,
): Promise<void> {
  await network.removeTap(tapOf(record.slot));
  for (const file of [files.rootDisk, files.seed, files.control, files.command, files.pid])
    await rm(file, { force: true });
}

/** The machine's process, if the stored ID still belongs to it. */
export async function readMachinePid(files: MachineFiles): Promise<number | undefined> {
  const text = await readFile(files.pid, "utf8").catch(() => "");
  const pid = Number.parseInt(text, 10);
  return Number.isInteger(pid) && (await hasArgument(pid, files.pid)) ? pid : undefined;
}

/** Bytes that a file takes on disk; 0 if it is not there. */
export async function allocatedBytes(file: string): Promise<number> {
  return await stat(file).then(
    (found) => found.blocks * 512,
    () => 0,
  );
}

/** The last `maxBytes` of a file as text; empty if it is not there. */
export async function readTail(file: string, maxBytes: number): Promise<string> {
  const handle = await open(file, "r").catch(() => undefined);
  if (!handle) return "";
  try {
    const { size } = await handle.stat();
    const length = Math.min(size, Math.max(0, maxBytes));
    const buffer = Buffer.alloc(length);
    const { bytesRead } = await handle.read(buffer, 0, length, size - length);
    return buffer.toString("utf8", 0, bytesRead);
  } finally {
    await handle.close();
  }
}

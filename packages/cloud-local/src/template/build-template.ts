import { chmod, open, rm, writeFile } from "node:fs/promises";
import { makeFolder, pause, runCommand, systemClock, untilAborted } from "@kip/base";
import { cloneMessages } from "@kip/cloud-init";
import { controlGroupPath, confined, makeControlGroup } from "../host/control-group.ts";
import { readBootId } from "../host/host-facts.ts";
import { MachineError, reasonOf } from "../host/machine-error.ts";
import { createRootDisk } from "../machine/machine-process.ts";
import { templateUser } from "../qemu/machine-user.ts";
import { qemuArguments } from "../qemu/qemu-arguments.ts";
import { startQemu, type StartedQemu } from "../qemu/qemu-process.ts";
import { loadDeviceState, saveDeviceState } from "./device-state.ts";
import {
  addPreloadDevice,
  copyTemplate,
  preloadDevice,
  preloadLine,
  type ImagePreload,
} from "./image-preload.ts";
import { waitForMessage } from "./clone-messages.ts";
import { sealOf, type Seal } from "./template-record.ts";
import { templateCmdline, type MachineShape, type TemplateFacts } from "./template-shape.ts";
import type { DraftFiles, DraftProcesses, TemplateStore } from "./template-store.ts";
import { readTail } from "../host/file-text.ts";

/**
 * Lower priority than everything else on this computer, but with a fair share, so that the template is also completed while
 * cells keep starting.
 */
const nice = ["nice", "-n", "5"] as const;

/**
 * The clock of a machine that will become a template. Programs that draw new random numbers after a long time then do so in
 * each copy.
 */
const templateClock = "2020-01-01T00:00:00";

/** Options of {@link buildTemplate}. */
export interface BuildTemplateOptions {
  readonly key: string;
  readonly facts: TemplateFacts;
  readonly shape: MachineShape;
  readonly store: TemplateStore;
  readonly firstUserId: number;
  /** Prefix of control groups' names. */
  readonly groupPrefix: string;
  /** RFC 3339. */
  readonly created: string;
  /** Makes the template by pulling images into another one. @default the machine boots */
  readonly preload?: ImagePreload | undefined;
  /** Aborts the build. */
  readonly signal: AbortSignal;
}

/**
 * Boots a machine, or lets a copy of a template pull images, until it needs a clone identity. Then saves its memory, disk and
 * device state. Callers hold the templates' lock. Leaves nothing behind on failure.
 *
 * @throws {MachineError} with the end of the machine's console
 */
export async function buildTemplate(options: BuildTemplateOptions): Promise<void> {
  const { key, store, signal } = options;
  const draft = store.draft(key);
  await store.removeDraft(key); // left by a killed process
  const onAbort = (): void => void store.removeDraft(key).catch(() => {}); // repeated below
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    signal.throwIfAborted();
    await makeFolder(draft.folder, 0o711); // QEMU's user finds files in it by name
    await runAndSave(options, draft);
    await store.endDraft(key); // a guest that has broken into QEMU must not change sealed files
    const seals = await sealFiles(draft, signal);
    await store.write(draft, {
      key,
      facts: options.facts,
      ...seals,
      verifiedBootId: await readBootId(),
      created: options.created,
    });
    signal.throwIfAborted();
    await store.publish(key);
  } catch (error) {
    const console = (await readTail(draft.console, 1000)).trim();
    await store.removeDraft(key);
    signal.throwIfAborted();
    throw new MachineError("Cannot make a template", reasonOf(error), { cause: error, console });
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

/** Returns when QEMU has ended. */
async function runAndSave(options: BuildTemplateOptions, draft: DraftFiles): Promise<void> {
  const { preload } = options;
  await makeDisk(options, draft);
  await using state = preload && (await open(preload.base.state));
  await using _device = preload && (await addPreloadDevice(preload));
  using started = await startQemu({
    program: await builderProgram(options, draft),
    args: builderArguments(options, draft),
    logFile: draft.log,
    state,
  });
  if (preload) await loadDeviceState(started);
  await untilPrepared(started, options);
  await saveDeviceState(started, draft.stateSocket, draft.state);
  await started.commands.execute("quit").catch(() => {}); // its last message is not always read
  await pause(Number.POSITIVE_INFINITY, systemClock, started.ended);
  for (const file of [draft.console, draft.control, draft.command, draft.pid, draft.log])
    await rm(file, { force: true });
}

async function makeDisk(
  { shape, signal, preload }: BuildTemplateOptions,
  draft: DraftFiles,
): Promise<void> {
  const { image, rootDiskBytes } = shape;
  if (preload) await copyTemplate(preload, draft, signal);
  else await createRootDisk(draft.disk, rootDiskBytes, { file: image.rootDisk, format: "raw" });
}

function builderArguments(
  { key, shape, firstUserId, preload }: BuildTemplateOptions,
  draft: DraftFiles,
): readonly string[] {
  const { image, qemu } = shape;
  return qemuArguments({
    id: `template-${key}`,
    architecture: image.architecture,
    qemuVersion: qemu.version,
    accelerator: shape.accelerator,
    cpus: shape.cpus,
    memoryBytes: shape.memoryBytes,
    memory: { kind: "shared", file: draft.memory, isFull: preload !== undefined },
    kernel: image.kernel,
    initrd: image.initrd,
    cmdline: templateCmdline(image),
    rootDisk: draft.disk,
    console: draft.console,
    control: draft.control,
    command: draft.command,
    pid: draft.pid,
    ...(preload ? preloadDevice(preload) : { tap: "cell0", mac: "02:6b:00:00:00:01" }),
    folder: draft.folder,
    user: templateUser(firstUserId),
    clock: templateClock,
    hasPort: true,
  });
}

/**
 * QEMU's command, preceded by those that enter its control group and its network. The network leads nowhere, unless the machine
 * pulls images.
 */
async function builderProgram(
  options: BuildTemplateOptions,
  draft: DraftFiles,
): Promise<readonly string[]> {
  const { preload, shape } = options;
  // The same kind of device as in a machine.
  const network = preload
    ? ["nsenter", `--net=${preload.network.namespace.file}`]
    : ["unshare", "--net"];
  return [...(await enterGroup(options, draft)), ...nice, ...network, shape.qemu.program];
}

/** Runs the machine until it needs a clone identity. */
async function untilPrepared(
  { commands, port, ended }: StartedQemu,
  { preload, signal }: BuildTemplateOptions,
): Promise<void> {
  const letRun = async (): Promise<void> => {
    await commands.execute("cont");
    if (preload) port.write(await preloadLine(preload));
  };
  const prepared = waitForMessage(port, cloneMessages.template);
  await Promise.all([untilAborted(prepared, AbortSignal.any([ended, signal])), letRun()]);
}

/** Records how to identify the processes and creates their control group. Returns the command that enters it. */
async function enterGroup(
  { key, firstUserId, groupPrefix }: BuildTemplateOptions,
  draft: DraftFiles,
): Promise<readonly string[]> {
  const controlGroup = await controlGroupPath(`${groupPrefix}template-${key}`);
  const known: DraftProcesses = {
    uid: templateUser(firstUserId).uid,
    controlGroup,
  };
  await writeFile(draft.processes, JSON.stringify(known), { mode: 0o600 });
  const isMade = controlGroup !== undefined && (await makeControlGroup(controlGroup));
  return confined(isMade ? controlGroup : undefined);
}

async function sealFiles(
  draft: DraftFiles,
  signal: AbortSignal,
): Promise<{ readonly memory: Seal; readonly disk: Seal; readonly state: Seal }> {
  const files = [draft.memory, draft.disk, draft.state];
  for (const file of files) await chmod(file, 0o400); // counts as a change of the file
  const [memory = "", disk = "", state = ""] = await hashFiles(files, signal);
  return {
    memory: await sealOf(draft.memory, memory),
    disk: await sealOf(draft.disk, disk),
    state: await sealOf(draft.state, state),
  };
}

/** SHA-256 of files, computed by a process with the lowest priority. */
export async function hashFiles(
  files: readonly string[],
  signal: AbortSignal,
): Promise<readonly string[]> {
  const [program, ...args] = nice;
  const { stdout } = await runCommand(program, [...args, "sha256sum", "--zero", ...files], {
    signal,
  });
  const lines = stdout.split("\0");
  return files.map((_file, index) => lines[index]?.slice(0, 64) ?? "");
}

import { randomBytes } from "node:crypto";
import { open } from "node:fs/promises";
import { decode, pause, systemClock, untilAborted, withTimeout } from "@kip/base";
import { orderLine, cloneMessages, userDataFields, type CloneIdentity } from "@kip/cloud-init";
import { reasonOf } from "../host/machine-error.ts";
import { loadDeviceState } from "../template/device-state.ts";
import { waitForMessage } from "../template/clone-messages.ts";
import type { TemplateFiles } from "../template/template-record.ts";
import { templateCmdline } from "../template/template-shape.ts";
import {
  createRootDisk,
  machineArguments,
  machineProgram,
  type StartMachineOptions,
} from "../machine/machine-process.ts";
import { freshCloneState } from "../template/fresh-clone-state.ts";
import { qemuArguments, tapOf } from "../qemu/qemu-arguments.ts";
import { startQemu, type StartedQemu } from "../qemu/qemu-process.ts";

/** Time limit until the agent of a copy listens, milliseconds. */
const readyLimitMs = 30_000;
/** How long a message of an agent that has ended may take to arrive, milliseconds. */
const lateMessageMs = 1000;

const portChange = decode.object({ open: decode.boolean });

/**
 * Starts a machine as a copy of a template. Returns when its agent listens. If the template or the copy fails, returns the
 * reason, and the caller then removes the rest of the machine.
 *
 * @throws {CloudError} if the machine's disk or device cannot be created, which is not the template's fault
 */
export async function cloneMachine(
  options: StartMachineOptions,
  template: TemplateFiles,
): Promise<string | undefined> {
  const { record, files, image, network, onStep } = options;
  await Promise.all([
    createRootDisk(files.rootDisk, record.rootDiskBytes, { file: template.disk, format: "qcow2" }),
    network.addTap(tapOf(record.slot)),
  ]);
  onStep("disk and network device");
  const args = qemuArguments({
    ...machineArguments(options),
    cmdline: templateCmdline(image),
    memory: { kind: "private", file: template.memory },
    hasPort: true,
  });
  try {
    await withTimeout(async (signal) => await run(options, template, args, signal), {
      limitMs: readyLimitMs,
      clock: systemClock,
      error: () => new Error(`it was not ready within ${readyLimitMs / 1000} s`),
    });
    return undefined;
  } catch (error) {
    return reasonOf(error);
  }
}

async function run(
  options: StartMachineOptions,
  template: TemplateFiles,
  args: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  const { files, onStep } = options;
  await using state = await open(template.state);
  using started = await startQemu({
    program: await machineProgram(options),
    args,
    logFile: files.log,
    state,
  });
  onStep("QEMU");
  await Promise.all([loadDeviceState(started), options.onPaused()]);
  onStep("device state");
  const letRun = async (): Promise<void> => {
    await started.commands.execute("cont");
    // The last step, because it contains the time.
    started.port.write(orderLine(cloneIdentityOf(options)));
    onStep("run");
  };
  await Promise.all([untilReady(started, signal), letRun()]);
  onStep("ready");
}

/** Rejects when QEMU has ended, or when the agent has ended or closed its port. */
async function untilReady(
  { commands, port, ended }: StartedQemu,
  signal: AbortSignal,
): Promise<void> {
  const closed = new AbortController();
  const closeLater = async (): Promise<void> => {
    // Its earlier messages use another connection and may arrive later.
    if (await pause(lateMessageMs, systemClock, signal)) closed.abort(new Error("its agent ended"));
  };
  const stop = commands.onEvent("VSERPORT_CHANGE", portChange, ({ open: isOpen }) => {
    if (!isOpen) void closeLater();
  });
  try {
    const either = AbortSignal.any([ended, closed.signal, signal]);
    await untilAborted(waitForMessage(port, cloneMessages.ready), either);
  } finally {
    stop();
  }
}

/** Everything that the copy must not share with other copies. */
function cloneIdentityOf({
  record,
  userData,
  network,
  nameservers,
}: StartMachineOptions): CloneIdentity {
  return {
    version: 1,
    instanceId: record.id,
    hostname: record.name,
    machineId: randomBytes(16).toString("hex"),
    ...freshCloneState(network.plan, record.slot, nameservers),
    ...userDataFields(userData),
  };
}

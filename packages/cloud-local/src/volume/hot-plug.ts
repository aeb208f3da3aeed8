import { chmod, chown, link, mkdir, rm, stat } from "node:fs/promises";
import path from "node:path";
import { decode, isSystemError, systemClock, withTimeout } from "@kip/base";
import { CloudError } from "@kip/cloud";
import { hasOpen } from "../host/open-files.ts";
import type { ProcessGroup } from "../host/processes.ts";
import { openCommands, type QmpSession } from "../qemu/qmp-session.ts";

/** What volumes need to know about a running machine. Its lock is held. */
export interface DiskMachine {
  /** The machine's folder. */
  readonly folder: string;
  /** QEMU's control socket for commands. */
  readonly command: string;
  /** QEMU's path of a file in that folder, which is all that QEMU sees. */
  readonly pathInside: (file: string) => string;
  /** QEMU's user. */
  readonly user: { readonly uid: number; readonly gid: number };
  /** QEMU, and any processes that it forked. */
  readonly processes: ProcessGroup;
}

/** The controller for disks that are added later, on every machine. */
const bus = "volumes.0";
/** How long QEMU may take to remove a disk, milliseconds. A guest cannot prevent the removal of a SCSI disk. */
const unplugLimitMs = 30_000;

/** How long QEMU may take to close the file of a removed disk, milliseconds. */
const closeLimitMs = 2000;

const nodeList = decode.list(decode.object({ "node-name": decode.optional(decode.string) }));
const deletion = decode.object({ device: decode.optional(decode.string) });
const objectList = decode.list(decode.object({ name: decode.string }));

/**
 * Adds a disk to a running machine. The disk's file gets a second name in the machine's folder, which is all that its QEMU can
 * see. Repeating it continues where a killed process has stopped.
 *
 * @param disk file of the disk, raw
 * @param serial the guest finds the disk by it. It is also the disk's name in QEMU
 */
export async function plugDisk(machine: DiskMachine, disk: string, serial: string): Promise<void> {
  const file = await linkInto(machine.folder, disk, serial);
  await chown(file, machine.user.uid, machine.user.gid);
  using control = await openCommands(machine.command);
  if (!(await hasNode(control, serial))) {
    await control.execute("blockdev-add", {
      "node-name": serial,
      driver: "raw",
      // Flushes by the guest reach the physical disk, and discarded blocks are freed.
      cache: { direct: false, "no-flush": false },
      discard: "unmap",
      file: {
        driver: "file",
        filename: machine.pathInside(file),
        cache: { direct: false, "no-flush": false },
        discard: "unmap",
      },
    });
  }
  if (await hasDevice(control, serial)) return;
  await control.execute("device_add", {
    driver: "scsi-hd",
    bus,
    id: serial,
    drive: serial,
    serial,
    device_id: serial,
  });
}

/**
 * Removes a disk from a running machine. Does nothing if it has none with this serial number.
 *
 * @param disk file of the disk
 * @throws {CloudError} `CLOUD_UNAVAILABLE` if the machine does not release it, or still has the file open
 */
export async function unplugDisk(
  machine: DiskMachine,
  disk: string,
  serial: string,
): Promise<void> {
  {
    using control = await openCommands(machine.command);
    if (await hasDevice(control, serial)) await removeDevice(control, serial);
    if (await hasNode(control, serial))
      await control.execute("blockdev-del", { "node-name": serial });
  }
  await untilClosed(machine, disk, serial);
}

/**
 * A QEMU that was broken into may claim to have no disk, and keep writing to it after another machine has it. The kernel has no
 * event when the last descriptor is closed, so this polls.
 */
async function untilClosed(machine: DiskMachine, disk: string, serial: string): Promise<void> {
  const until = systemClock.monotonic() + closeLimitMs;
  while (await hasOpen(machine.processes, disk)) {
    if (systemClock.monotonic() > until) {
      throw new CloudError(
        "CLOUD_UNAVAILABLE",
        `Cannot take disk "${serial}" out: the machine's process still has it open`,
        { remedy: "Terminate the machine" },
      );
    }
    await systemClock.sleep(20);
  }
}

/** Removes a disk's second name from a machine's folder and gives the file back to root. */
export async function takeBack(folder: string, disk: string, serial: string): Promise<void> {
  await rm(linkOf(folder, serial), { force: true });
  await chown(disk, 0, 0);
}

async function removeDevice(control: QmpSession, device: string): Promise<void> {
  const removed = Promise.withResolvers<void>();
  void control.closed.then(removed.resolve); // it has ended and has no disks
  const stop = control.onEvent("DEVICE_DELETED", deletion, (deleted) => {
    if (deleted.device === device) removed.resolve();
  });
  try {
    await control.execute("device_del", { id: device });
    await withTimeout(async () => await removed.promise, {
      limitMs: unplugLimitMs,
      clock: systemClock,
      error: () => {
        const reason = `the machine did not let go of it within ${unplugLimitMs / 1000} s`;
        return new CloudError("CLOUD_UNAVAILABLE", `Cannot take disk "${device}" out: ${reason}`);
      },
    });
  } finally {
    stop();
  }
}

function linkOf(folder: string, serial: string): string {
  return path.join(folder, "volumes", `${serial}.raw`);
}

async function linkInto(folder: string, disk: string, serial: string): Promise<string> {
  const file = linkOf(folder, serial);
  await mkdir(path.dirname(file), { recursive: true });
  // The umask changes the mode of mkdir(), and a process that created the folder may have been killed before setting its mode.
  await chmod(path.dirname(file), 0o711);
  // QEMU's root folder, which does not belong to its user. Other users cannot enter the parent folder.
  await chmod(folder, 0o711);
  try {
    await link(disk, file);
  } catch (error) {
    if (!isSystemError(error, "EEXIST")) throw error;
    const [there, wanted] = await Promise.all([stat(file), stat(disk)]);
    if (there.ino !== wanted.ino) {
      await rm(file);
      await link(disk, file);
    }
  }
  return file;
}

async function hasNode(control: QmpSession, node: string): Promise<boolean> {
  const nodes = nodeList(await control.execute("query-named-block-nodes", { flat: true }), "QMP");
  return nodes.some((each) => each["node-name"] === node);
}

async function hasDevice(control: QmpSession, device: string): Promise<boolean> {
  const path = "/machine/peripheral";
  const objects = objectList(await control.execute("qom-list", { path }), "QMP");
  return objects.some(({ name }) => name === device);
}

import { lstat, opendir } from "node:fs/promises";
import path from "node:path";
import type { OciDevice } from "./oci-spec.ts";

/** Folders of /dev without devices of the machine, or of which a container has its own: terminals, memory, queues. */
const skippedFolders = new Set(["fd", "mqueue", "pts", "shm"]);
/** Device nodes that every container has of its own. */
const ownDevices = new Set(["console", "full", "null", "ptmx", "random", "tty", "urandom", "zero"]);

/**
 * The machine's present device nodes for a privileged container, as in containerd. Includes disks that were plugged in, and
 * nodes in folders such as /dev/mapper and /dev/bus/usb. Does not follow links.
 *
 * @param root @default "/dev"
 */
export async function machineDevices(root = "/dev"): Promise<readonly OciDevice[]> {
  const found: OciDevice[] = [];
  await collect(root, "", found);
  return found;
}

async function collect(root: string, folder: string, found: OciDevice[]): Promise<void> {
  // A folder that disappears at this moment is skipped.
  const entries = await opendir(path.join(root, folder)).catch(() => undefined);
  if (!entries) return;
  for await (const entry of entries) {
    const name = path.join(folder, entry.name);
    if (entry.isDirectory()) {
      if (!skippedFolders.has(name)) await collect(root, name, found);
    } else if (!ownDevices.has(name)) {
      const device = await describeDevice(path.join(root, name));
      if (device) found.push({ ...device, path: path.join("/dev", name) });
    }
  }
}

/** A device node of the machine. Undefined if there is none at this path. Does not follow links. */
export async function describeDevice(file: string): Promise<Omit<OciDevice, "path"> | undefined> {
  const stat = await lstat(file).catch(() => undefined);
  const type = stat?.isCharacterDevice() ? "c" : stat?.isBlockDevice() ? "b" : undefined;
  if (!stat || !type) return undefined;
  return {
    type,
    // Linux packs both numbers into 64 bits: gnu_dev_major(3), gnu_dev_minor(3).
    major: Number((BigInt(stat.rdev) >> 8n) & 0xfffn),
    minor: Number((BigInt(stat.rdev) & 0xffn) | ((BigInt(stat.rdev) >> 12n) & 0xfff00n)),
    fileMode: stat.mode & 0o777,
    uid: stat.uid,
    gid: stat.gid,
  };
}

import { readFile, readdir, lstat } from "node:fs/promises";
import path from "node:path";
import { availableCapabilities } from "./capabilities.ts";
import type { MachineFacts } from "./build-spec.ts";
import type { OciDevice } from "./oci-spec.ts";

/** Reads what {@link buildSpec} must know about this machine. */
export async function readMachineFacts(): Promise<MachineFacts> {
  const [capabilities, devices, limits] = await Promise.all([
    availableCapabilities(),
    machineDevices(),
    readFile("/proc/self/limits", "utf8"),
  ]);
  const hard = /^Max open files\s+\S+\s+(\d+)/m.exec(limits)?.[1];
  // Without CAP_SYS_RESOURCE nobody can go above the own hard limit; with it, up to the kernel's default.
  const canRaise = capabilities.includes("CAP_SYS_RESOURCE");
  const openFilesLimit = Math.max(Number(hard ?? 1024), canRaise ? 524_288 : 0);
  return { capabilities, devices, openFilesLimit };
}

/** Device nodes directly in /dev and in the folders that hold real devices; terminals are the container's own. */
async function machineDevices(): Promise<readonly OciDevice[]> {
  const found: OciDevice[] = [];
  for (const folder of ["/dev", "/dev/net", "/dev/dri", "/dev/snd", "/dev/input"]) {
    const names = await readdir(folder).catch(() => []);
    for (const name of names) {
      const device = await describe(path.join(folder, name));
      if (device) found.push(device);
    }
  }
  return found;
}

async function describe(file: string): Promise<OciDevice | undefined> {
  if (/^\/dev\/(console|ptmx|tty|null|zero|full|u?random)$/.test(file)) return undefined;
  const stat = await lstat(file).catch(() => undefined);
  const type = stat?.isCharacterDevice() ? "c" : stat?.isBlockDevice() ? "b" : undefined;
  if (!stat || !type) return undefined;
  return {
    path: file,
    type,
    // Linux packs them into 64 bits: gnu_dev_major(3), gnu_dev_minor(3).
    major: Number((BigInt(stat.rdev) >> 8n) & 0xfffn),
    minor: Number((BigInt(stat.rdev) & 0xffn) | ((BigInt(stat.rdev) >> 12n) & 0xfff00n)),
    fileMode: stat.mode & 0o777,
    uid: stat.uid,
    gid: stat.gid,
  };
}

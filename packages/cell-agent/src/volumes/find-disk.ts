import fs from "node:fs/promises";
import path from "node:path";
import { AgentError } from "@kip/agent-api";
import { watchOrPoll, isSystemError } from "@kip/base";

/** A disk of this machine. */
export interface Disk {
  /** Its device file. */
  readonly file: string;
  readonly sizeBytes: number;
}

/** Where disks show, and how long to wait for one. */
export interface FindDiskOptions {
  /** @default "/sys/block" */
  readonly sysBlock?: string;
  /** @default "/dev" */
  readonly dev?: string;
  /** @default 60,000 */
  readonly limitMs?: number;
}

/**
 * The disk with this serial number, which may be plugged in only now: the kernel makes its device file then, and that is
 * what is waited for.
 *
 * @throws {AgentError} `AGENT_DISK_ABSENT` after the limit
 */
export async function findDisk(serial: string, options: FindDiskOptions = {}): Promise<Disk> {
  const { sysBlock = "/sys/block", dev = "/dev", limitMs = 60_000 } = options;
  const found = Promise.withResolvers<Disk>();
  found.promise.catch(() => {}); // awaited below, but may fail before that
  let looks: Promise<void> = Promise.resolve();
  const look = (): void => {
    looks = looks
      .then(async () => {
        const disk = await lookFor(serial, sysBlock, dev);
        if (disk) found.resolve(disk);
      })
      .catch(found.reject);
  };
  // Watched before the first look: a disk that comes in between is not missed.
  using _watcher = watchOrPoll(dev, look);
  look();
  const timer = setTimeout(() => found.reject(absent(serial, limitMs)), limitMs);
  try {
    return await found.promise;
  } finally {
    clearTimeout(timer);
    await looks;
  }
}

async function lookFor(serial: string, sysBlock: string, dev: string): Promise<Disk | undefined> {
  for (const name of await fs.readdir(sysBlock)) {
    if ((await serialOf(path.join(sysBlock, name))) !== serial) continue;
    const file = path.join(dev, name);
    const sectors = Number((await readOrEmpty(path.join(sysBlock, name, "size"))).toString());
    const isThere = await fs.access(file).then(
      () => true,
      () => false,
    );
    // A disk has no size until the kernel has asked it.
    if (isThere && sectors > 0) return { file, sizeBytes: sectors * 512 };
  }
  return undefined;
}

/** What the disk says of itself: SCSI's page 80h behind its header of 4 bytes, or a virtio or NVMe disk's own file. */
async function serialOf(folder: string): Promise<string> {
  const page = await readOrEmpty(path.join(folder, "device", "vpd_pg80"));
  if (page.length > 4) return page.toString("latin1", 4).trim();
  const own = await readOrEmpty(path.join(folder, "serial"));
  return (own.length > 0 ? own : await readOrEmpty(path.join(folder, "device", "serial")))
    .toString("latin1")
    .trim();
}

async function readOrEmpty(file: string): Promise<Buffer> {
  try {
    return await fs.readFile(file);
  } catch (error) {
    // Other kinds of disks have no such file, or one that says nothing; and a disk may be gone again.
    if (isSystemError(error, "ENOENT", "ENOTDIR", "EINVAL", "ENODEV", "ENXIO", "EIO"))
      return Buffer.alloc(0);
    throw error;
  }
}

function absent(serial: string, limitMs: number): AgentError {
  return new AgentError(
    "AGENT_DISK_ABSENT",
    `Cannot find disk "${serial}": it was not plugged in within ${limitMs / 1000} s`,
    { retryable: true },
  );
}

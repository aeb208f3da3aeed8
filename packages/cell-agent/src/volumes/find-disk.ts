import fs from "node:fs/promises";
import path from "node:path";
import { AgentError } from "@kip/agent-api";
import {
  isSystemError,
  SerialQueue,
  systemClock,
  untilAborted,
  watchOrPoll,
  withTimeout,
  type Clock,
} from "@kip/base";

/** A disk of this machine. */
export interface Disk {
  /** Its device file. */
  readonly file: string;
  readonly sizeBytes: number;
}

/** Where to look for disks, and how long to wait for one. */
export interface FindDiskOptions {
  /** @default "/sys/block" */
  readonly sysBlock?: string | undefined;
  /** @default "/dev" */
  readonly dev?: string | undefined;
  /** Milliseconds. @default 60,000 */
  readonly limitMs?: number | undefined;
  /** @default systemClock */
  readonly clock?: Clock | undefined;
}

/**
 * Finds the disk with this serial number. It may be attached later: the kernel then creates its device file, which this waits
 * for.
 *
 * @throws {AgentError} `AGENT_DISK_ABSENT` after the time limit
 */
export async function findDisk(serial: string, options: FindDiskOptions = {}): Promise<Disk> {
  const { sysBlock = "/sys/block", dev = "/dev", limitMs = 60_000, clock = systemClock } = options;
  const queue = new SerialQueue();
  const look = async (): Promise<Disk | undefined> =>
    await queue.run(async () => await findBySerial(serial, sysBlock, dev));
  const find = async (signal: AbortSignal): Promise<Disk> => {
    const found = Promise.withResolvers<Disk>();
    const check = (): void => {
      look().then((disk) => disk && found.resolve(disk), found.reject);
    };
    // Start to watch before the first check, so that a disk that appears in between is not missed.
    using _watcher = watchOrPoll(dev, check);
    check();
    return await untilAborted(found.promise, signal);
  };
  try {
    return await withTimeout(find, { limitMs, clock, error: () => absent(serial, limitMs) });
  } finally {
    await queue.idle();
  }
}

async function findBySerial(
  serial: string,
  sysBlock: string,
  dev: string,
): Promise<Disk | undefined> {
  for (const name of await fs.readdir(sysBlock)) {
    if ((await serialOf(path.join(sysBlock, name))) !== serial) continue;
    const file = path.join(dev, name);
    const sectors = Number((await readOrEmpty(path.join(sysBlock, name, "size"))).toString());
    const isThere = await fs.access(file).then(
      () => true,
      () => false,
    );
    // A disk has no size until the kernel has read it.
    if (isThere && sectors > 0) return { file, sizeBytes: sectors * 512 };
  }
  return undefined;
}

/** The disk's own serial number: SCSI's page 80h after its header of 4 bytes, or the file of a virtio or NVMe disk. */
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
    // Other kinds of disks have no such file or an empty one, and a disk may have been removed.
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

import { readFile, statfs } from "node:fs/promises";
import os from "node:os";

/** The host's resources. */
export interface HostFacts {
  readonly cpus: number;
  /** Bytes, of the machine or of the container that this process is in. */
  readonly memoryBytes: number;
}

/** The host's resources, as far as machines may use them. */
export function readHostFacts(): HostFacts {
  const limit = process.constrainedMemory();
  const total = os.totalmem();
  return {
    cpus: os.availableParallelism(),
    memoryBytes: limit > 0 ? Math.min(total, limit) : total,
  };
}

/** Memory that new processes can use without swapping, bytes. */
export async function availableMemoryBytes(): Promise<number> {
  const text = await readFile("/proc/meminfo", "utf8");
  const kib = /^MemAvailable:\s+(\d+) kB$/m.exec(text)?.[1];
  return kib === undefined ? os.freemem() : Number(kib) * 1024;
}

/** Free bytes of the file system that holds the folder. */
export async function freeDiskBytes(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
}

/** An ID that changes with every boot. */
export async function readBootId(): Promise<string> {
  return (await readFile("/proc/sys/kernel/random/boot_id", "utf8")).trim();
}

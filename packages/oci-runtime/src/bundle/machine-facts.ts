import { existsSync, readdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { availableCapabilities } from "./capabilities.ts";

/** What {@link buildSpec} must know about the machine. */
export interface MachineFacts {
  /** Capabilities that can be given to a container. */
  readonly capabilities: readonly string[];
  /** Highest open-files limit that can be given. */
  readonly openFilesLimit: number;
  /** Paths to hide besides those that are the same on all machines. */
  readonly maskedPaths: readonly string[];
}

/** Reads the facts of this machine. */
export async function readMachineFacts(): Promise<MachineFacts> {
  const [capabilities, limits] = await Promise.all([
    availableCapabilities(),
    readFile("/proc/self/limits", "utf8"),
  ]);
  const hard = /^Max open files\s+\S+\s+(\d+)/m.exec(limits)?.[1];
  // Without CAP_SYS_RESOURCE a process cannot go above its hard limit; with it, up to the kernel's default.
  const canRaise = capabilities.includes("CAP_SYS_RESOURCE");
  const openFilesLimit = Math.max(Number(hard ?? 1024), canRaise ? 524_288 : 0);
  return { capabilities, openFilesLimit, maskedPaths: throttleCounts() };
}

/** Counts of how often each processor was slowed down by its heat: they tell of what else runs. Kubelets hide them. */
function throttleCounts(): readonly string[] {
  const folder = "/sys/devices/system/cpu";
  const processors = readdirSync(folder).filter((name) => /^cpu\d+$/.test(name));
  return processors.map((name) => `${folder}/${name}/thermal_throttle`).filter(existsSync);
}

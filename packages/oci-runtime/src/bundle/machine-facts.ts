import { existsSync, readdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { availableCapabilities } from "./capabilities.ts";

/** The facts about the machine that {@link buildSpec} needs. */
export interface MachineFacts {
  /** Capabilities that a container can get. */
  readonly capabilities: readonly string[];
  /** The highest possible limit for open files. */
  readonly openFilesLimit: number;
  /** Paths to hide, in addition to those that are the same on all machines. */
  readonly maskedPaths: readonly string[];
}

/** Reads the facts of this machine. */
export async function readMachineFacts(): Promise<MachineFacts> {
  const [capabilities, limits] = await Promise.all([
    availableCapabilities(),
    readFile("/proc/self/limits", "utf8"),
  ]);
  const hard = /^Max open files\s+\S+\s+(\d+)/m.exec(limits)?.[1];
  // Without CAP_SYS_RESOURCE a process cannot exceed its hard limit. With it, up to the kernel's default.
  const canRaise = capabilities.includes("CAP_SYS_RESOURCE");
  const openFilesLimit = Math.max(Number(hard ?? 1024), canRaise ? 524_288 : 0);
  return { capabilities, openFilesLimit, maskedPaths: throttleCounts() };
}

/** Counters of how often heat has slowed down each processor. They reveal what else is running, so kubelets hide them too. */
function throttleCounts(): readonly string[] {
  const folder = "/sys/devices/system/cpu";
  const processors = readdirSync(folder).filter((name) => /^cpu\d+$/.test(name));
  return processors.map((name) => `${folder}/${name}/thermal_throttle`).filter(existsSync);
}

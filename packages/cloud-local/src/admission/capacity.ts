import { CloudError } from "@kip/cloud";
import type { Resources } from "./admission-plan.ts";

/** Figures that decide whether one more machine starts. */
export interface CapacityFigures {
  /** Memory of the machine that is asked for, its own overhead included. */
  readonly neededMemoryBytes: number;
  /** Memory promised to machines that exist. */
  readonly promisedMemoryBytes: number;
  /** Part of it that they have not touched yet, and will. */
  readonly untouchedMemoryBytes: number;
  /** Most that all machines may have together. */
  readonly memoryLimitBytes: number;
  /** What the host could give to new processes now. */
  readonly availableMemoryBytes: number;
  /** Disk that the machine must find free. */
  readonly neededDiskBytes: number;
  /** The same of machines that exist, not written yet. */
  readonly unwrittenDiskBytes: number;
  readonly freeDiskBytes: number;
  /** CPUs of the machine that is asked for, of those that exist, and of all that may be. */
  readonly neededCpus: number;
  readonly promisedCpus: number;
  readonly cpuLimit: number;
}

/** The figures that do not depend on what is asked for. */
export type HostFigures = Omit<
  CapacityFigures,
  "neededMemoryBytes" | "neededDiskBytes" | "neededCpus"
>;

/** Room comes and goes with each pod here, milliseconds. */
export const retryAfterMs = 15_000;

/** What there is for further machines. */
export function roomIn(figures: HostFigures): Resources {
  return {
    memory: Math.min(
      figures.memoryLimitBytes - figures.promisedMemoryBytes,
      figures.availableMemoryBytes - figures.untouchedMemoryBytes,
    ),
    disk: figures.freeDiskBytes - figures.unwrittenDiskBytes,
    cpus: figures.cpuLimit - figures.promisedCpus,
  };
}

/**
 * Refuses a machine for which there is too little.
 *
 * @throws {CloudError} `CLOUD_QUOTA` above the limit that was set, `CLOUD_NO_CAPACITY` if the host
 * itself has too little memory, disk or processors now
 */
export function checkCapacity(instanceType: string, figures: CapacityFigures): void {
  const subject = `Cannot start a machine of type ${instanceType}`;
  const limitLeft = figures.memoryLimitBytes - figures.promisedMemoryBytes;
  if (figures.neededMemoryBytes > limitLeft) {
    throw new CloudError(
      "CLOUD_QUOTA",
      `${subject}: it needs ${mebibytes(figures.neededMemoryBytes)} of memory and ${mebibytes(limitLeft)} of the limit of ${mebibytes(figures.memoryLimitBytes)} are left`,
      { remedy: "Delete pods, or raise the local cloud's memory limit", facts: { ...figures } },
    );
  }
  const memoryLeft = figures.availableMemoryBytes - figures.untouchedMemoryBytes;
  if (figures.neededMemoryBytes > memoryLeft) {
    throw new CloudError(
      "CLOUD_NO_CAPACITY",
      `${subject}: it needs ${mebibytes(figures.neededMemoryBytes)} of memory and this machine has ${mebibytes(memoryLeft)} left`,
      {
        remedy: "Delete pods, lower their requests, or end other programs",
        scope: { instanceType },
        retryAfterMs,
        facts: { ...figures },
      },
    );
  }
  const diskLeft = figures.freeDiskBytes - figures.unwrittenDiskBytes;
  if (figures.neededDiskBytes > diskLeft) {
    throw new CloudError(
      "CLOUD_NO_CAPACITY",
      `${subject}: it needs ${mebibytes(figures.neededDiskBytes)} of free disk and this machine has ${mebibytes(diskLeft)} left`,
      {
        remedy: "Free disk space below the state folder",
        scope: { zone: "local" },
        retryAfterMs,
        facts: { ...figures },
      },
    );
  }
  const cpusLeft = figures.cpuLimit - figures.promisedCpus;
  if (figures.neededCpus > cpusLeft) {
    throw new CloudError(
      "CLOUD_NO_CAPACITY",
      `${subject}: it needs ${figures.neededCpus} CPUs and ${Math.max(0, cpusLeft)} of the ${figures.cpuLimit} that all machines may share are left`,
      { remedy: "Delete pods", scope: { instanceType }, retryAfterMs, facts: { ...figures } },
    );
  }
}

function mebibytes(value: number): string {
  return `${Math.max(0, Math.floor(value / 2 ** 20))} MiB`;
}

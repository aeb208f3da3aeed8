import { CloudError } from "@kip/cloud";
import type { Resources } from "./admission-plan.ts";

/** Figures that decide whether another machine may start. */
export interface CapacityFigures {
  /** Memory of the requested machine, including its overhead. */
  readonly neededMemoryBytes: number;
  /** Memory promised to existing machines. */
  readonly promisedMemoryBytes: number;
  /** The part of it that they have not used yet. */
  readonly untouchedMemoryBytes: number;
  /** Memory limit for all machines together. */
  readonly memoryLimitBytes: number;
  /** Memory that the host has available for new processes. */
  readonly availableMemoryBytes: number;
  /** Free disk space that the machine needs. */
  readonly neededDiskBytes: number;
  /** Disk space promised to existing machines and not written yet. */
  readonly unwrittenDiskBytes: number;
  readonly freeDiskBytes: number;
  /** CPUs of the requested machine, of existing machines, and the limit for all. */
  readonly neededCpus: number;
  readonly promisedCpus: number;
  readonly cpuLimit: number;
}

/** The figures that do not depend on the request. */
export type HostFigures = Omit<
  CapacityFigures,
  "neededMemoryBytes" | "neededDiskBytes" | "neededCpus"
>;

/** Delay before a retry, milliseconds. Each pod that starts or ends changes the free resources. */
export const retryAfterMs = 15_000;

/** The resources that are left for more machines. */
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
 * Refuses a machine if there are not enough resources.
 *
 * @throws {CloudError} `CLOUD_QUOTA` above the configured limit, `CLOUD_NO_CAPACITY` if the host itself has too little memory,
 * disk space or CPUs
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

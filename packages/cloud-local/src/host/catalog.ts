import { hostArchitecture } from "@kip/base";
import type { Architecture, InstanceTypeOffer } from "@kip/cloud";
import type { HostFacts } from "./host-facts.ts";

const MiB = 2 ** 20;

/**
 * Memory of a machine above what its pod gets, bytes: kernel, agent and the container tools. Measured
 * with the cell image (672 MiB machine, agent idle): the kernel keeps 48 MiB, all else takes 125 MiB.
 */
const overheadBytes = 192 * MiB;

/** The kernel describes each page of 4096 bytes with 64. */
const pageTableShare = 64 / 4096;

/** Memory that stays with the host, bytes: no type is so big that it would need it. */
const hostReserveBytes = 512 * MiB;

const sizes: readonly (readonly [name: string, cpus: number, memoryMiB: number])[] = [
  ["nano", 1, 256],
  ["micro", 1, 512],
  ["small", 1, 1024],
  ["medium", 2, 2048],
  ["large", 2, 4096],
  ["xlarge", 4, 8192],
  ["2xlarge", 8, 16384],
  ["4xlarge", 16, 32768],
  ["8xlarge", 32, 65536],
];

/** Memory of the machine whose pod gets `podMemoryBytes`, whole MiB in bytes. */
export function machineMemoryBytes(podMemoryBytes: number): number {
  const machine = podMemoryBytes * (1 + pageTableShare) + overheadBytes;
  return Math.ceil(machine / MiB) * MiB;
}

/**
 * The types on offer: those of the table that this machine can run at least one of, for each architecture: `local.nano`, and
 * `local-arm64.nano` where that is not the computer's own. What an offer says is what a pod gets; the machine is bigger:
 * {@link machineMemoryBytes}.
 */
export function localInstanceTypes(
  host: HostFacts,
  architectures: readonly Architecture[] = [hostArchitecture],
): readonly InstanceTypeOffer[] {
  return [...new Set(architectures)].flatMap((architecture) => typesOf(host, architecture));
}

function typesOf(host: HostFacts, architecture: Architecture): readonly InstanceTypeOffer[] {
  const family = architecture === hostArchitecture ? "local" : `local-${architecture}`;
  return sizes
    .map(([name, cpus, memoryMiB]) => ({
      name: `${family}.${name}`,
      architecture,
      cpuMilli: cpus * 1000,
      memoryBytes: memoryMiB * MiB,
      gpus: 0,
      pricePerHour: { "on-demand": 0, spot: 0, dedicated: 0 },
    }))
    .filter(
      (offer) =>
        offer.cpuMilli <= host.cpus * 1000 &&
        machineMemoryBytes(offer.memoryBytes) + hostReserveBytes <= host.memoryBytes,
    );
}

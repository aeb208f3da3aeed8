import { hostArchitecture } from "@kip/base";
import type { Architecture, InstanceTypeOffer } from "@kip/cloud";
import type { HostFacts } from "./host-facts.ts";

const MiB = 2 ** 20;

/**
 * Memory of a machine in addition to its pod's, bytes, for the kernel, the agent and the container tools. Measured with the
 * cell image (672 MiB machine, idle agent): the kernel keeps 48 MiB, and everything else takes 125 MiB.
 */
const overheadBytes = 192 * MiB;

/** The kernel needs 64 bytes to describe each page of 4096 bytes. */
const pageTableShare = 64 / 4096;

/** Memory reserved for the host, bytes. No type may need it. */
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

/** Memory of the machine for a pod with `podMemoryBytes`, in bytes, rounded to whole MiB. */
export function machineMemoryBytes(podMemoryBytes: number): number {
  const machine = podMemoryBytes * (1 + pageTableShare) + overheadBytes;
  return Math.ceil(machine / MiB) * MiB;
}

/**
 * The types on offer: those of which this host can run at least one machine, for each architecture. Examples are `local.nano`,
 * and `local-arm64.nano` if that is not the computer's own architecture. An offer states the pod's resources. The machine is
 * larger: {@link machineMemoryBytes}.
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

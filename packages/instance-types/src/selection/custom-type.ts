import type { CustomFamily, OfferedInstanceType } from "../offered-instance-type.ts";
import { machineMemoryBytes, podMemoryBytes } from "../overhead.ts";
import type { InstanceTypeRequest } from "./request.ts";

const MiB = 2 ** 20;
const GiB = 2 ** 30;

/**
 * The cheapest machine of a family that fits a request. It has the fewest cores that allow the memory, because more cores never
 * need less memory. If none is large enough, the largest machine. If the pattern has no `*`, the machine with that name.
 */
export function customType(
  family: CustomFamily,
  request: InstanceTypeRequest,
): OfferedInstanceType | undefined {
  const { typeGlob } = request;
  if (typeGlob !== undefined && !typeGlob.includes("*")) return namedType(family, typeGlob);
  const wanted = roundedUp(machineMemoryBytes(request.memoryBytes), family.memoryStep);
  const cpus =
    family.cpus.find(
      (count) => count * 1000 >= request.cpuMilli && wanted <= maxMemory(family, count),
    ) ?? family.cpus.at(-1);
  if (cpus === undefined) return undefined;
  return sized(
    family,
    cpus,
    Math.min(Math.max(wanted, minMemory(family, cpus)), maxMemory(family, cpus)),
  );
}

function namedType(family: CustomFamily, name: string): OfferedInstanceType | undefined {
  const [cpus = 0, memoryMiB = 0] = name.startsWith(`${family.namePrefix}-`)
    ? name
        .slice(family.namePrefix.length + 1)
        .split("-")
        .map(Number)
    : [];
  const memory = memoryMiB * MiB;
  const isSold =
    family.cpus.includes(cpus) &&
    memory % family.memoryStep === 0 &&
    memory >= minMemory(family, cpus) &&
    memory <= maxMemory(family, cpus);
  return isSold ? sized(family, cpus, memory) : undefined;
}

function sized(family: CustomFamily, cpus: number, memory: number): OfferedInstanceType {
  const prices = Object.entries(family.pricePerHour).flatMap(([launchType, price]) =>
    price ? [[launchType, cpus * price.perCpu + (memory / GiB) * price.perGiB] as const] : [],
  );
  return {
    name: `${family.namePrefix}-${cpus}-${memory / MiB}`,
    cpuMilli: cpus * 1000,
    memoryBytes: podMemoryBytes(memory),
    gpus: 0,
    pricePerHour: Object.fromEntries(prices),
    architecture: family.architecture,
    localDiskBytes: 0,
  };
}

function minMemory({ minMemoryPerCpu, memoryStep }: CustomFamily, cpus: number): number {
  return roundedUp(minMemoryPerCpu * cpus, memoryStep);
}

function maxMemory({ maxMemoryPerCpu, memoryStep }: CustomFamily, cpus: number): number {
  return Math.floor((maxMemoryPerCpu * cpus) / memoryStep) * memoryStep;
}

function roundedUp(value: number, step: number): number {
  return Math.ceil(value / step) * step;
}

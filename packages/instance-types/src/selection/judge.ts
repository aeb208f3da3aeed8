import { globMatches } from "@kip/base";
import type { Burst, OfferedInstanceType } from "../offered-instance-type.ts";
import { isGpuKind } from "./gpu-kind.ts";
import type { InstanceTypeRequest } from "./request.ts";

/**
 * Why a type does not fit a request, in the order of the checks:
 *
 * | reason | meaning |
 * | --- | --- |
 * | name | another type was requested by name |
 * | kept | only for pods that name it |
 * | architecture | another architecture |
 * | gpu | no GPUs of that kind, or too few |
 * | unasked-gpu | it has GPUs, which were not requested |
 * | cpu | too few cores |
 * | burst | too few cores all the time, and more are not for sale |
 * | memory | too little memory |
 * | unavailable | none available at present |
 */
export const rejections = [
  "name",
  "kept",
  "architecture",
  "gpu",
  "unasked-gpu",
  "cpu",
  "burst",
  "memory",
  "unavailable",
] as const;

/** @see rejections */
export type Rejection = (typeof rejections)[number];

/** Why a type does not fit, for any launch type. Undefined if it fits. */
export function judgeType(
  type: OfferedInstanceType,
  request: InstanceTypeRequest,
): Exclude<Rejection, "unavailable"> | undefined {
  const { typeGlob } = request;
  if (typeGlob !== undefined && !globMatches(typeGlob, type.name)) return "name";
  if (typeGlob === undefined && type.onlyIfNamed !== undefined) return "kept";
  const { architecture = "amd64" } = type;
  const usual = typeGlob === type.name ? architecture : "amd64";
  if (!(request.architectures ?? [usual]).includes(architecture)) return "architecture";
  return (
    judgeGpus(type, request) ??
    judgeCpu(type, request) ??
    (type.memoryBytes < request.memoryBytes ? "memory" : undefined)
  );
}

function judgeGpus(
  type: OfferedInstanceType,
  request: InstanceTypeRequest,
): "gpu" | "unasked-gpu" | undefined {
  const { gpus, gpuManufacturer = "nvidia", gpuKinds = [], typeGlob } = request;
  if (gpus === 0 && gpuKinds.length === 0) {
    const isAllowed = typeGlob !== undefined || request.allowsOtherGpus === true;
    return type.gpus > 0 && !isAllowed ? "unasked-gpu" : undefined;
  }
  // A kind of GPU without a number requests one.
  if (type.gpus < Math.max(1, gpus)) return "gpu";
  const { gpuModel: model } = type;
  if (!model) return gpuManufacturer === "nvidia" && gpuKinds.length === 0 ? undefined : "gpu";
  if (model.manufacturer !== gpuManufacturer) return "gpu";
  if (model.isSlice === true && typeGlob === undefined) return "gpu";
  return gpuKinds.every((kind) => isGpuKind(kind, model)) ? undefined : "gpu";
}

function judgeCpu(
  type: OfferedInstanceType,
  request: InstanceTypeRequest,
): "cpu" | "burst" | undefined {
  if (type.cpuMilli < request.cpuMilli) return "cpu";
  return request.launchTypes.every((launchType) => isTooSlow(type, launchType, request))
    ? "burst"
    : undefined;
}

/**
 * Whether a type has too few cores all the time, and more are not for sale with this launch type. Does not apply to a pod that
 * names the type.
 */
export function isTooSlow(
  { name, burst, cpuMilli }: OfferedInstanceType,
  launchType: string,
  request: InstanceTypeRequest,
): boolean {
  if (burst === undefined || request.typeGlob === name) return false;
  return (
    burstRate(burst, launchType) === undefined &&
    burst.baselineCpuMilli < sustained(request, cpuMilli)
  );
}

/** US dollars per hour for a core above the baseline. Undefined if it is not for sale with this launch type. */
function burstRate({ pricePerCpuHour, cappedFor = [] }: Burst, launchType: string) {
  return cappedFor.includes(launchType) ? undefined : pricePerCpuHour;
}

/** US dollars per hour for what a request needs all the time above the baseline of a type. 0 for most types. */
export function burstPrice(
  { burst, cpuMilli }: OfferedInstanceType,
  launchType: string,
  request: InstanceTypeRequest,
): number {
  const rate = burst && burstRate(burst, launchType);
  if (burst === undefined || rate === undefined) return 0;
  const above = Math.max(0, sustained(request, cpuMilli) - burst.baselineCpuMilli);
  return (above / 1000) * rate;
}

/** What a request needs all the time of a type with this many cores. A type that the pod names may have fewer than it asks for. */
function sustained(
  { sustainedCpuMilli, cpuMilli }: InstanceTypeRequest,
  ofTypeMilli: number,
): number {
  return Math.min(sustainedCpuMilli ?? cpuMilli, ofTypeMilli);
}

/**
 * Returns a function that gives the available zones for a type and launch type. Empty: none; undefined: not known. Thousands of
 * types and zones may be unavailable, so each type is only compared with its own.
 */
export function zonesLeft({
  unavailable = [],
  zones,
}: InstanceTypeRequest): (
  type: OfferedInstanceType,
  launchType: string,
) => readonly string[] | undefined {
  const byType = Map.groupBy(unavailable, ({ instanceType }) => instanceType);
  const ofAny = byType.get(undefined) ?? [];
  return ({ name, zones: ofType }, launchType) => {
    const gone = [...ofAny, ...(byType.get(name) ?? [])].filter(
      (each) => (each.launchType ?? launchType) === launchType,
    );
    if (gone.some(({ zone }) => zone === undefined)) return [];
    const known =
      zones && ofType ? zones.filter((zone) => ofType.includes(zone)) : (zones ?? ofType);
    return known?.filter((zone) => !gone.some((each) => each.zone === zone));
  };
}

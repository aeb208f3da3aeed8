import { globMatches } from "@kip/base";
import type { Burst, OfferedInstanceType } from "../offered-instance-type.ts";
import { isGpuKind } from "./gpu-kind.ts";
import type { InstanceTypeRequest } from "./request.ts";

/**
 * Why a type is not for a request, in the order in which it is looked at:
 *
 * | reason | meaning |
 * | --- | --- |
 * | name | another name than asked for |
 * | kept | only for pods that name it |
 * | architecture | another processor |
 * | gpu | no GPUs of that kind, or not so many |
 * | unasked-gpu | it has GPUs, which were not asked for |
 * | cpu | too few cores |
 * | burst | too few cores all the time, and more cannot be bought |
 * | memory | too little |
 * | unavailable | none left now |
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

/** What speaks against a type whatever its launch type; undefined: nothing. */
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
  // A kind without a number is one of it.
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

/** Whether a type has too few cores all the time, and more cannot be bought in this launch type. A pod that names it gets it. */
export function isTooSlow(
  { name, burst }: OfferedInstanceType,
  launchType: string,
  request: InstanceTypeRequest,
): boolean {
  if (burst === undefined || request.typeGlob === name) return false;
  return burstRate(burst, launchType) === undefined && burst.baselineCpuMilli < sustained(request);
}

/** US dollars for an hour of a core above the baseline; undefined: it cannot be bought in this launch type. */
function burstRate({ pricePerCpuHour, cappedFor = [] }: Burst, launchType: string) {
  return cappedFor.includes(launchType) ? undefined : pricePerCpuHour;
}

/** US dollars per hour for what a request needs all the time above the baseline of a type that fits; 0 for most. */
export function burstPrice(
  { burst }: OfferedInstanceType,
  launchType: string,
  request: InstanceTypeRequest,
): number {
  const rate = burst && burstRate(burst, launchType);
  if (burst === undefined || rate === undefined) return 0;
  const above = Math.max(0, sustained(request) - burst.baselineCpuMilli);
  return (above / 1000) * rate;
}

function sustained({ sustainedCpuMilli, cpuMilli }: InstanceTypeRequest): number {
  return sustainedCpuMilli ?? cpuMilli;
}

/** The zones left for a type and launch type: none, undefined for "not known", or some. */
export function zonesLeft(
  type: OfferedInstanceType,
  launchType: string,
  { unavailable = [], zones }: InstanceTypeRequest,
): readonly string[] | undefined {
  const gone = unavailable.filter(
    (each) =>
      (each.instanceType ?? type.name) === type.name &&
      (each.launchType ?? launchType) === launchType,
  );
  if (gone.some(({ zone }) => zone === undefined)) return [];
  const ofType = type.zones;
  const known = zones && ofType ? zones.filter((zone) => ofType.includes(zone)) : (zones ?? ofType);
  return known?.filter((zone) => !gone.some((each) => each.zone === zone));
}

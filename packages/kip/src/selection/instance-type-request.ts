import { maxGlobLength } from "@kip/base";
import type { LaunchType } from "@kip/cloud";
import type { InstanceTypeRequest } from "@kip/instance-types";
import type { Pod } from "@kip/k8s-types";
import { cellAnnotations, invalidAnnotation, shown } from "./cell-annotations.ts";
import { architectures, gpuKinds } from "./pod-placement.ts";
import { podRequests } from "./pod-requests.ts";
import { podResources } from "./pod-resources.ts";

/**
 * What a pod asks for of its machine. Its size is what its containers may use ({@link podResources}); what it needs all the
 * time is what they request. A pod that names one type, by its annotation, gets that one, whatever it asks for.
 *
 * @param defaultInstanceType type for pods that ask for nothing; undefined: the cheapest
 * @throws {ProviderError} `ANNOTATION_INVALID`; {@link DecodeError} `QUANTITY_INVALID`
 */
export function instanceTypeRequest(
  pod: Pod,
  defaultInstanceType: string | undefined,
): InstanceTypeRequest {
  const annotations = pod.metadata.annotations ?? {};
  const annotation = readInstanceType(annotations[cellAnnotations.instanceType]);
  const launchTypes = [readLaunchType(annotations[cellAnnotations.launchType])];
  const asked = podResources(pod);
  const requests = podRequests(pod);
  const sustained = Math.min(asked.cpuMilli, Math.ceil((requests.get("cpu") ?? 0) * 1000 - 1e-6));
  const amdGpus = asked.gpus === 0 ? (requests.get("amd.com/gpu") ?? 0) : 0;
  const gpus = asked.gpus + amdGpus;
  const asksNothing = asked.cpuMilli === 0 && asked.memoryBytes === 0 && gpus === 0;
  const isGlob = annotation?.includes("*") ?? false;
  const exact = annotation !== undefined && !isGlob ? annotation : undefined;
  const type = exact ?? (asksNothing && !isGlob ? defaultInstanceType : undefined);
  if (type !== undefined)
    return {
      cpuMilli: 0,
      memoryBytes: 0,
      gpus: 0,
      // It may cost more than the type itself.
      sustainedCpuMilli: sustained,
      typeGlob: type,
      launchTypes,
    };
  return {
    ...asked,
    gpus,
    sustainedCpuMilli: sustained,
    ...(amdGpus > 0 && { gpuManufacturer: "amd" }),
    gpuKinds: gpuKinds(pod),
    architectures: architectures(pod),
    typeGlob: annotation,
    launchTypes,
  };
}

/** @throws {ProviderError} `ANNOTATION_INVALID` */
export function readLaunchType(text: string | undefined): LaunchType {
  const value = text === undefined ? "on-demand" : shown(text).toLowerCase();
  if (value === "on-demand" || value === "spot" || value === "dedicated") return value;
  throw invalidAnnotation(cellAnnotations.launchType, `"${shown(text)}" is not a launch type`, {
    remedy: 'Write "spot" or "dedicated", or leave the annotation out',
  });
}

function readInstanceType(text: string | undefined): string | undefined {
  if (text === undefined || text.length <= maxGlobLength) return text;
  throw invalidAnnotation(
    cellAnnotations.instanceType,
    `"${shown(text)}" has more than ${maxGlobLength} characters`,
    { remedy: "Write the name of an instance type, or a pattern such as t3.*" },
  );
}

import type { InstanceTypeRequest } from "@kip/instance-types";
import type { Pod } from "@kip/k8s-types";
import { cellConstraints, type CellConstraints } from "../annotations/read-annotations.ts";
import { architectures, gpuKinds } from "./pod-placement.ts";
import { podRequests } from "./pod-requests.ts";
import { podResources } from "./pod-resources.ts";

/**
 * A pod's request for its machine. The size is what its containers may use ({@link podResources}). What it needs all the time
 * is what they request. A pod whose annotation names a single type gets that type, whatever it requests.
 *
 * @param defaultInstanceType type for pods that request nothing; undefined: the cheapest
 * @param constraints from its annotations
 * @throws {ProviderError} `ANNOTATION_INVALID`; {@link DecodeError} `QUANTITY_INVALID`
 */
export function instanceTypeRequest(
  pod: Pod,
  defaultInstanceType: string | undefined,
  constraints: CellConstraints = cellConstraints(pod),
): InstanceTypeRequest {
  const { instanceType: annotation, launchTypes, architecture } = constraints;
  const wanted = processors(pod, architecture);
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
      // The CPU above the baseline may cost more than the type itself.
      sustainedCpuMilli: sustained,
      typeGlob: type,
      launchTypes,
      architectures: wanted,
    };
  return {
    ...asked,
    gpus,
    sustainedCpuMilli: sustained,
    ...(amdGpus > 0 && { gpuManufacturer: "amd" }),
    gpuKinds: gpuKinds(pod),
    architectures: wanted,
    typeGlob: annotation,
    launchTypes,
  };
}

/** Architectures from the annotation and the pod's node selector. Empty if they contradict each other. */
function processors(pod: Pod, annotation: string | undefined): readonly string[] | undefined {
  const selected = architectures(pod);
  if (annotation === undefined) return selected;
  return selected === undefined || selected.includes(annotation) ? [annotation] : [];
}

import { formatBytes, formatMilliCpu } from "@kip/base";
import type { InstanceTypeRequest } from "@kip/instance-types";
import type { Pod } from "@kip/k8s-types";
import type { Cell } from "@kip/kip/cell";
import { annotationPrefix } from "@kip/kip/annotations";

/** What a pod requests of its machine. */
export interface MachineRequest extends InstanceTypeRequest {
  /** The ephemeral storage that it requests, bytes. 0 if it requests none. Each type has it, because the disk grows with it. */
  readonly diskBytes: number;
}

/** The reasons for a pod's machine: the pod's requests and annotations, and where the machine came from. */
export function machineReasons(
  pod: Pod,
  cell: Cell | undefined,
  request: MachineRequest | undefined,
): readonly string[] {
  return [
    ...(request ? [requestText(request)] : []),
    ...Object.entries(pod.metadata.annotations ?? {})
      .filter(([name]) => name.startsWith(annotationPrefix))
      .map(([name, value]) => `its annotation ${name} is "${value}"`),
    ...(cell ? originTexts(cell, request) : []),
  ];
}

function requestText(request: MachineRequest): string {
  const { diskBytes } = request;
  const ofType = wishes(request);
  const all = [...ofType, ...(diskBytes > 0 ? [`${formatBytes(diskBytes)} of disk`] : [])];
  const text = `it asks for ${all.length > 0 ? all.join(", ") : "nothing"}`;
  if (ofType.length > 0) return text;
  const which = all.length > 0 ? ", which any type can have" : "";
  return `${text}${which}: it gets the default type of kip's configuration, or else the cheapest`;
}

function wishes(request: InstanceTypeRequest): readonly string[] {
  const { typeGlob, cpuMilli, memoryBytes, gpus, gpuKinds = [], sustainedCpuMilli } = request;
  const steady = steadyText(cpuMilli, sustainedCpuMilli);
  return [
    ...(cpuMilli > 0 ? [`${formatMilliCpu(cpuMilli)} CPU${steady}`] : []),
    ...(memoryBytes > 0 ? [`${formatBytes(memoryBytes)} of memory`] : []),
    ...(gpus > 0 ? [`${gpus} GPU ${gpuKinds.join(" or ")}`.trimEnd()] : []),
    ...(typeGlob === undefined ? [] : [`type ${typeGlob}`]),
  ];
}

/** Burstable machines are chosen by the CPU that is needed all the time. */
function steadyText(cpuMilli: number, sustained: number | undefined): string {
  return sustained === undefined || sustained === cpuMilli
    ? ""
    : ` (${formatMilliCpu(sustained)} all the time)`;
}

function originTexts({ spec }: Cell, request: InstanceTypeRequest | undefined): readonly string[] {
  const { standby, attempt, instanceType, launchType } = spec;
  return [
    ...(standby === true ? ["the machine stood by, and had what the pod needs"] : []),
    ...(standby !== true && request && isRanked(request)
      ? [
          `${instanceType} (${launchType}) was the cheapest that fits and that the cloud had capacity of`,
        ]
      : []),
    ...(attempt > 0
      ? [
          `it is the pod's machine number ${attempt + 1}: those before were lost, refused or deleted`,
        ]
      : []),
  ];
}

/** Whether the cheapest type was chosen. A named type or the default type is taken as it is. */
function isRanked(request: InstanceTypeRequest): boolean {
  const isNamed = request.typeGlob !== undefined && !request.typeGlob.includes("*");
  return !isNamed && wishes(request).length > 0;
}

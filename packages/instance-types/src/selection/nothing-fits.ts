import { formatBytes, nearest } from "@kip/base";
import { InstanceTypeError } from "../errors.ts";
import type { InstanceTypeOffers, OfferedInstanceType } from "../offered-instance-type.ts";
import { judgeType } from "./judge.ts";
import { compareSize, offeredTypes } from "./rank-instance-types.ts";
import type { InstanceTypeRequest } from "./request.ts";

/** The error for a request that no type fits. It names the request, and the reasons against all types. */
export function nothingFits(
  offers: InstanceTypeOffers,
  request: InstanceTypeRequest,
): InstanceTypeError {
  const wanted = [
    describe(request),
    ...describeGpuKinds(request),
    ...(request.architectures === undefined ? [] : [request.architectures.join(" or ")]),
    ...(request.typeGlob === undefined ? [] : [`type "${request.typeGlob}"`]),
    ...(request.launchTypes.includes("on-demand")
      ? []
      : [`launch type ${request.launchTypes.join(" or ")}`]),
  ].join(", ");
  const { reason, remedy, isRetryable = false, biggest } = findReason(offers, request);
  return new InstanceTypeError(
    "NO_INSTANCE_TYPE_FITS",
    `Cannot find an instance type for ${wanted}: ${reason}`,
    { remedy, retryable: isRetryable, facts: { asked: request, biggest } },
  );
}

interface Reason {
  readonly reason: string;
  readonly remedy: string;
  readonly isRetryable?: boolean;
  /** Name of the largest type. */
  readonly biggest?: string | undefined;
}

function findReason(offers: InstanceTypeOffers, request: InstanceTypeRequest): Reason {
  const all = offeredTypes(offers, request);
  const isSold = (type: OfferedInstanceType): boolean =>
    request.launchTypes.some((launchType) => type.pricePerHour[launchType] !== undefined);
  const isOther = (type: OfferedInstanceType): boolean => judgeType(type, request) === "name";
  if (isMac(request) && all.filter(isSold).every(isOther))
    return {
      reason: "Macs only run on dedicated hosts, for which no type of that name has a price",
      remedy: "Choose another type in the pod's instance type annotation: cells run Linux",
    };
  if (all.length > 0 && !all.some(isSold))
    return {
      reason: "nothing is on offer with that launch type",
      remedy: "Correct the pod's launch type annotation, or leave it out",
    };
  const fitting = all.filter((type) => judgeType(type, request) === undefined);
  if (fitting.some(isSold))
    return {
      reason: `the cloud has none left of the ${fitting.length} types that fit`,
      remedy: "It is tried again; allow another zone or launch type, so that more types fit",
      isRetryable: true,
    };
  const eligible = all.filter(isSold).filter((type) => {
    const judged = judgeType(type, request);
    return judged === undefined || ["gpu", "cpu", "burst", "memory"].includes(judged);
  });
  const withGpus = eligible.filter((type) => judgeType(type, request) !== "gpu");
  if (eligible.length > 0 && withGpus.length === 0) return noSuchGpus(eligible, request);
  const others = all.filter(isSold).filter((type) => judgeType(type, request) === "architecture");
  if (eligible.length === 0 && others.length > 0) return otherProcessors(others, request);
  return tooBig(withGpus, all, request);
}

/** Whether a Mac of AWS is requested by name. Other types with a similar name are not an alternative. */
function isMac({ typeGlob = "" }: InstanceTypeRequest): boolean {
  return /^mac\d/.test(typeGlob);
}

function otherProcessors(
  others: readonly OfferedInstanceType[],
  { architectures = ["amd64"], typeGlob }: InstanceTypeRequest,
): Reason {
  const found = [...new Set(others.map(({ architecture = "amd64" }) => architecture))].sort();
  const those = typeGlob === undefined ? "all on offer" : "those of that name";
  if (architectures.length === 0)
    return {
      reason: "the pod's annotation and its node selector name different processors",
      remedy: "Correct one of them",
    };
  return {
    reason: `${those} are ${found.join(" or ")}, and not ${architectures.join(" or ")}`,
    remedy: `Ask for ${found.join(" or ")} with the annotation pod.elotl.co/architecture, if the pod's images are for it`,
  };
}

function tooBig(
  eligible: readonly OfferedInstanceType[],
  all: readonly OfferedInstanceType[],
  request: InstanceTypeRequest,
): Reason {
  const biggest = [...eligible].sort((a, b) => a.gpus - b.gpus || compareSize(a, b)).at(-1);
  const mostMemory = [...eligible].sort((a, b) => a.memoryBytes - b.memoryBytes).at(-1);
  const tops = [...new Set([biggest, mostMemory])].filter((type) => type !== undefined);
  if (tops.length > 0)
    return {
      reason: `the biggest on offer is ${tops.map((type) => `${type.name} (${describe(type)})`).join(" or ")}`,
      remedy: "Lower the pod's requests and limits, or use a cloud with bigger machines",
      biggest: biggest?.name,
    };
  const { typeGlob } = request;
  const near =
    typeGlob === undefined
      ? undefined
      : nearest(
          typeGlob,
          all.map(({ name }) => name),
        );
  return {
    reason: "no type of that name and launch type is on offer",
    remedy:
      near === undefined || near === typeGlob
        ? "Correct the pod's instance type or launch type annotation"
        : `Did you mean ${near}? Correct the pod's instance type annotation`,
  };
}

function noSuchGpus(
  eligible: readonly OfferedInstanceType[],
  request: InstanceTypeRequest,
): Reason {
  const maker = request.gpuManufacturer ?? "nvidia";
  const most = new Map<string, number>();
  for (const { gpus, gpuModel } of eligible) {
    if (!gpuModel || gpuModel.manufacturer !== maker || gpuModel.isSlice === true) continue;
    most.set(gpuModel.name, Math.max(gpus, most.get(gpuModel.name) ?? 0));
  }
  const found = [...most].map(([name, count]) => `${name} (up to ${count})`).sort();
  const [kind] = request.gpuKinds ?? [];
  const near = kind === undefined ? undefined : nearest(kind, [...most.keys()]);
  return {
    reason:
      found.length === 0 ? `no type has GPUs of ${maker}` : `GPUs on offer are ${found.join(", ")}`,
    remedy:
      near === undefined
        ? "Correct the pod's GPU limit or node selector, or choose another region"
        : `Did you mean ${near}? Correct the pod's node selector`,
  };
}

function describeGpuKinds({ gpuKinds = [] }: InstanceTypeRequest): readonly string[] {
  return gpuKinds.length === 0
    ? []
    : [`GPUs of kind ${gpuKinds.map((kind) => `"${kind}"`).join(" and ")}`];
}

function describe(size: Pick<OfferedInstanceType, "cpuMilli" | "memoryBytes" | "gpus">): string {
  const parts = [
    size.cpuMilli === 0 ? [] : [`${size.cpuMilli / 1000} CPU`],
    size.memoryBytes === 0 ? [] : [`${readableBytes(size.memoryBytes)} memory`],
    size.gpus === 0 ? [] : [`${size.gpus} GPU`],
  ].flat();
  return parts.length === 0 ? "a pod" : parts.join(", ");
}

function readableBytes(value: number): string {
  const exact = formatBytes(value);
  return exact.length <= 7 ? exact : `${(value / 2 ** 30).toFixed(1)}Gi`;
}

import type { GpuModel } from "../offered-instance-type.ts";

/** What is currently unavailable. An omitted field means any. */
export interface Unavailable {
  readonly instanceType?: string | undefined;
  readonly zone?: string | undefined;
  readonly launchType?: string | undefined;
}

/** A pod's requirements. */
export interface InstanceTypeRequest {
  /** CPU that it may use, thousandths of a core, 0 or more. */
  readonly cpuMilli: number;
  /** CPU that it needs all the time, thousandths of a core. Burstable types are judged by it. @default cpuMilli */
  readonly sustainedCpuMilli?: number | undefined;
  /** Bytes, 0 or more. */
  readonly memoryBytes: number;
  /** Whole GPUs, 0 or more. */
  readonly gpus: number;
  /** @default "nvidia" */
  readonly gpuManufacturer?: GpuModel["manufacturer"] | undefined;
  /** Whether types with GPUs that were not requested also fit. @default false */
  readonly allowsOtherGpus?: boolean | undefined;
  /** Kinds of GPU, all of which the GPUs must match, see `isGpuKind`. @default any kind */
  readonly gpuKinds?: readonly string[] | undefined;
  /** Any of these, in Kubernetes' naming. @default that of a type that is named in full, otherwise amd64 alone */
  readonly architectures?: readonly string[] | undefined;
  /**
   * Only types whose name matches, by `globMatches` of @kip/base. They may be of any generation, and may have GPUs that are
   * slices or were not requested. A type that is named in full need not have the CPU that is needed all the time. @default all
   */
  readonly typeGlob?: string | undefined;
  /** "on-demand", "spot" or "dedicated". If several are given, the cheapest is chosen. */
  readonly launchTypes: readonly string[];
  /** Allowed zones. @default not known: a type that is unavailable in one zone still counts */
  readonly zones?: readonly string[] | undefined;
  /** What not to choose, for example because the cloud had no capacity. @default none */
  readonly unavailable?: readonly Unavailable[] | undefined;
}

import type { GpuModel } from "../offered-instance-type.ts";

/** What there is no more of for now; what is not named is any. */
export interface Unavailable {
  readonly instanceType?: string | undefined;
  readonly zone?: string | undefined;
  readonly launchType?: string | undefined;
}

/** What a pod asks for. */
export interface InstanceTypeRequest {
  /** What it may use, thousandths of a core, 0 or more. */
  readonly cpuMilli: number;
  /** What it needs all the time, thousandths of a core; burstable types are judged by it. @default cpuMilli */
  readonly sustainedCpuMilli?: number | undefined;
  /** Bytes, 0 or more. */
  readonly memoryBytes: number;
  /** Whole GPUs, 0 or more. */
  readonly gpus: number;
  /** @default "nvidia" */
  readonly gpuManufacturer?: GpuModel["manufacturer"] | undefined;
  /** Types with GPUs that were not asked for fit, too. @default false */
  readonly allowsOtherGpus?: boolean | undefined;
  /** Names of a kind of GPU, all of which its GPUs must have, see `isGpuKind`. @default any kind */
  readonly gpuKinds?: readonly string[] | undefined;
  /** Any of these, as Kubernetes names them. @default that of a type that is named in full, else amd64 alone */
  readonly architectures?: readonly string[] | undefined;
  /**
   * Only types whose name matches, by `globMatches` of @kip/base. Such types may be of any generation, and GPUs may be
   * slices or unasked for; one that is named in full need not have the CPU that is needed all the time. @default all
   */
  readonly typeGlob?: string | undefined;
  /** "on-demand", "spot" or "dedicated"; of several the cheapest. */
  readonly launchTypes: readonly string[];
  /** Where it may be. @default not known: what is unavailable in one zone is left in */
  readonly zones?: readonly string[] | undefined;
  /** What not to choose, for example after the cloud had no capacity. @default none */
  readonly unavailable?: readonly Unavailable[] | undefined;
}

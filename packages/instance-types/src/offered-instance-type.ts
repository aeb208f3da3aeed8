import type { Architecture } from "@kip/base";

export type { Architecture };

/** The GPUs of an instance type; all of one kind. */
export interface GpuModel {
  readonly manufacturer: "nvidia" | "amd";
  /** Short name, such as "t4" or "a100". */
  readonly name: string;
  /** Of each. */
  readonly memoryBytes: number;
  /** What the cloud itself calls it, such as "nvidia-tesla-t4". @default none */
  readonly acceleratorType?: string | undefined;
  /** Part of one GPU instead of a whole one. @default false */
  readonly isSlice?: boolean | undefined;
}

/** An instance type that has its processors only part of the time. */
export interface Burst {
  /** What it has all the time, thousandths of a core. */
  readonly baselineCpuMilli: number;
  /**
   * US dollars for an hour of a core above the baseline, where the cloud sells that without a limit: "unlimited" of
   * EC2's t2 to t4g. @default it cannot be bought: the type has the baseline and not more
   */
  readonly pricePerCpuHour?: number | undefined;
  /** Launch types in which it cannot be bought all the same, as EC2's T3 as dedicated instances. @default none */
  readonly cappedFor?: readonly string[] | undefined;
}

/** An instance type as the selector sees it; a cloud's offer has this shape. */
export interface OfferedInstanceType {
  readonly name: string;
  /** What a pod gets, thousandths of a core. */
  readonly cpuMilli: number;
  /** What a pod gets, bytes. */
  readonly memoryBytes: number;
  readonly gpus: number;
  /** US dollars per hour by launch type. A launch type without a price is not on offer. */
  readonly pricePerHour: Readonly<Partial<Record<string, number>>>;
  /** @default "amd64" */
  readonly architecture?: Architecture | undefined;
  /** Of its `gpus`. @default they fit any request that names no kind, for NVIDIA's */
  readonly gpuModel?: GpuModel | undefined;
  /** @default it has its processors all the time */
  readonly burst?: Burst | undefined;
  /** Disks of the machine itself, bytes; undefined: unknown. */
  readonly localDiskBytes?: number | undefined;
  /** Why only a pod that names it gets it, such as "of a previous generation". @default any pod does */
  readonly onlyIfNamed?: string | undefined;
  /** Where it is on offer. @default wherever the request may be */
  readonly zones?: readonly string[] | undefined;
}

/** Types of any size between limits, made for the request. */
export interface CustomFamily {
  /** Such as "n2". */
  readonly name: string;
  /** Before the size in the name of a type: "n2-custom" for `n2-custom-4-8192`. */
  readonly namePrefix: string;
  /** Whole cores that a machine may have, ascending. */
  readonly cpus: readonly number[];
  /** Memory of the machine for each core, bytes. */
  readonly minMemoryPerCpu: number;
  readonly maxMemoryPerCpu: number;
  /** The machine's memory is a multiple of it, bytes. */
  readonly memoryStep: number;
  readonly architecture: Architecture;
  /** US dollars per hour, by launch type. */
  readonly pricePerHour: Readonly<
    Partial<Record<string, { readonly perCpu: number; readonly perGiB: number }>>
  >;
}

/** All that a cloud has on offer in one place. */
export interface InstanceTypeOffers {
  readonly types: readonly OfferedInstanceType[];
  /** @default none */
  readonly families?: readonly CustomFamily[] | undefined;
}

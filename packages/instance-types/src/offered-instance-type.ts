import type { Architecture } from "@kip/base";

export type { Architecture };

/** The GPUs of an instance type. All are of the same model. */
export interface GpuModel {
  readonly manufacturer: "nvidia" | "amd";
  /** Short name, as in "t4" or "a100". */
  readonly name: string;
  /** Memory of each GPU. */
  readonly memoryBytes: number;
  /** The cloud's own name, as in "nvidia-tesla-t4". @default none */
  readonly acceleratorType?: string | undefined;
  /** Whether this is a part of a GPU. @default false */
  readonly isSlice?: boolean | undefined;
}

/** CPU of a burstable instance type, which does not have all of its CPU all the time. */
export interface Burst {
  /** CPU that is available all the time, thousandths of a core. */
  readonly baselineCpuMilli: number;
  /**
   * US dollars per hour for a core above the baseline, if the cloud sells that without a limit, as EC2's "unlimited" mode for
   * t2 to t4g. @default not for sale: only the baseline counts
   */
  readonly pricePerCpuHour?: number | undefined;
  /**
   * Launch types for which CPU above the baseline is still not for sale, as for EC2's T3 as dedicated instances. @default none
   */
  readonly cappedFor?: readonly string[] | undefined;
}

/** An instance type as input of the selection. A cloud's offer has this form. */
export interface OfferedInstanceType {
  readonly name: string;
  /** The pod's CPU, thousandths of a core. */
  readonly cpuMilli: number;
  /** The pod's memory, bytes. */
  readonly memoryBytes: number;
  readonly gpus: number;
  /** US dollars per hour by launch type. A launch type without a price is not on offer. */
  readonly pricePerHour: Readonly<Partial<Record<string, number>>>;
  /** @default "amd64" */
  readonly architecture?: Architecture | undefined;
  /** Model of its GPUs. @default they are NVIDIA's, and fit any request that does not name a model */
  readonly gpuModel?: GpuModel | undefined;
  /** @default all of its CPU is available all the time */
  readonly burst?: Burst | undefined;
  /** Local disks of the machine, bytes. Undefined if unknown. */
  readonly localDiskBytes?: number | undefined;
  /** Why it is only chosen for pods that name it, as in "of a previous generation". @default it may be chosen for any pod */
  readonly onlyIfNamed?: string | undefined;
  /** Zones in which it is on offer. @default all zones of the request */
  readonly zones?: readonly string[] | undefined;
}

/** A family of types with any size within limits. Types are made to fit a request. */
export interface CustomFamily {
  /** As in "n2". */
  readonly name: string;
  /** The part of a type's name before its size: "n2-custom" for `n2-custom-4-8192`. */
  readonly namePrefix: string;
  /** Allowed numbers of cores, ascending. */
  readonly cpus: readonly number[];
  /** Memory of the machine per core, bytes. */
  readonly minMemoryPerCpu: number;
  readonly maxMemoryPerCpu: number;
  /** The machine's memory must be a multiple of this, bytes. */
  readonly memoryStep: number;
  readonly architecture: Architecture;
  /** US dollars per hour, by launch type. */
  readonly pricePerHour: Readonly<
    Partial<Record<string, { readonly perCpu: number; readonly perGiB: number }>>
  >;
}

/** Everything that a cloud offers in one place. */
export interface InstanceTypeOffers {
  readonly types: readonly OfferedInstanceType[];
  /** @default none */
  readonly families?: readonly CustomFamily[] | undefined;
}

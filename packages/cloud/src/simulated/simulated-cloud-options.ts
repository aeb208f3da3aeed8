import { systemClock, type Clock, type Defined } from "@kip/base";
import type { Instance, InstanceTypeOffer } from "../cloud-driver.ts";

/** A random time, drawn for each use, in milliseconds. Both bounds are included. */
export interface TimeRange {
  readonly minMs: number;
  readonly maxMs: number;
}

/** A simulated instance that starts running. */
export interface SimulatedMachine {
  readonly instance: Instance;
  readonly userData: Uint8Array;
  /** Writes to the serial console. */
  readonly write: (text: string) => void;
}

/** The addresses of a running instance. */
export type InstanceAddresses = Required<Defined<Pick<Instance, "managementIp" | "podIp">>>;

/** Options of {@link createSimulatedCloud}. */
export interface SimulatedCloudOptions {
  /** @default "simulated-1" */
  readonly zone?: string | undefined;
  /** @default three types with 1 to 4 CPUs, on-demand and spot */
  readonly types?: readonly InstanceTypeOffer[] | undefined;
  /** The name of each image, and the size of its disk in bytes. @default { cell: 1 MiB } */
  readonly images?: Readonly<Record<string, number>> | undefined;
  /** How long each call takes. @default 0 */
  readonly callMs?: number | TimeRange | undefined;
  /** How long an instance is pending. @default 0 */
  readonly startMs?: number | TimeRange | undefined;
  /** How long an instance is stopping. @default 0 */
  readonly stopMs?: number | TimeRange | undefined;
  /** How old the answers of `list` and `describe` are, milliseconds. @default 0 */
  readonly lagMs?: number | undefined;
  /** Most instances of one owner. Exceeding it is `CLOUD_QUOTA`. @default no limit */
  readonly maxInstances?: number | undefined;
  /** The same seed gives the same IDs and times. @default 1 */
  readonly seed?: number | undefined;
  /** Addresses of the instance in a slot. Slots are integers from 0. The slot freed last is used first. */
  readonly addresses?: ((slot: number) => InstanceAddresses) | undefined;
  /**
   * Starts the software of an instance, such as an agent within this process. The returned function is called when the instance
   * ends.
   */
  readonly boot?: (machine: SimulatedMachine) => (() => void) | undefined;
  /** @default the system's */
  readonly clock?: Clock | undefined;
}

/** {@link SimulatedCloudOptions} with all defaults. */
export type ResolvedSimulatedCloudOptions = Required<
  Defined<Omit<SimulatedCloudOptions, "callMs" | "startMs" | "stopMs">>
> &
  Readonly<Record<"callMs" | "startMs" | "stopMs", TimeRange>>;

const GiB = 2 ** 30;

/** Adds the defaults. */
export function resolveSimulatedCloudOptions(
  options: SimulatedCloudOptions,
): ResolvedSimulatedCloudOptions {
  return {
    zone: options.zone ?? "simulated-1",
    types: options.types ?? [1, 2, 4].map(offerOf),
    images: options.images ?? { cell: 2 ** 20 },
    callMs: range(options.callMs),
    startMs: range(options.startMs),
    stopMs: range(options.stopMs),
    lagMs: options.lagMs ?? 0,
    maxInstances: options.maxInstances ?? Infinity,
    seed: options.seed ?? 1,
    addresses: options.addresses ?? addressesOf,
    boot: options.boot ?? (() => undefined),
    clock: options.clock ?? systemClock,
  };
}

function offerOf(cpus: number): InstanceTypeOffer {
  return {
    name: `sim.${cpus}`,
    cpuMilli: cpus * 1000,
    memoryBytes: cpus * 2 * GiB,
    gpus: 0,
    pricePerHour: { "on-demand": cpus * 0.04, spot: cpus * 0.01 },
  };
}

function range(time: number | TimeRange = 0): TimeRange {
  return typeof time === "number" ? { minMs: time, maxMs: time } : time;
}

/** From 10.0.0.0/8: machines in the lower half, pods in the upper half. */
function addressesOf(slot: number): InstanceAddresses {
  const rest = slot + 16;
  const bytes = [(rest >> 16) & 0x7f, (rest >> 8) & 0xff, rest & 0xff];
  const [high = 0, ...low] = bytes;
  return {
    managementIp: ["10", high, ...low].join("."),
    podIp: ["10", high | 0x80, ...low].join("."),
  };
}

import type { InstanceTypeInfo } from "@aws-sdk/client-ec2";
import { defined } from "@kip/base";
import type { OfferedInstanceType, PriceEntry } from "@kip/instance-types";

/** What AWS returns about a region. */
export interface RegionFacts {
  readonly types: readonly InstanceTypeInfo[];
  readonly onDemand: ReadonlyMap<string, number>;
  readonly dedicated: ReadonlyMap<string, number>;
  readonly spot: ReadonlyMap<string, number>;
}

/**
 * Price file entries for the types that have a price, by name. Leaves out a type that kip does not know and could not choose
 * correctly: bare metal, types with accelerators or with GPUs that are not NVIDIA's, and burstable types, whose baseline AWS
 * does not return here.
 *
 * @param known types of the built-in list
 */
export function priceEntries(
  facts: RegionFacts,
  known: ReadonlyMap<string, OfferedInstanceType>,
): readonly PriceEntry[] {
  return facts.types
    .flatMap((type) => entryOf(type, facts, known.get(type.InstanceType ?? "")) ?? [])
    .sort((a, b) => a.instanceType.localeCompare(b.instanceType, "en"));
}

function entryOf(
  type: InstanceTypeInfo,
  { onDemand, dedicated, spot }: RegionFacts,
  known: OfferedInstanceType | undefined,
): PriceEntry | undefined {
  const { InstanceType: name = "", VCpuInfo, MemoryInfo } = type;
  const [cpu = 0, memoryMiB = 0] = [VCpuInfo?.DefaultVCpus, MemoryInfo?.SizeInMiB];
  const price = onDemand.get(name);
  const spotPrice = spot.get(name);
  const isSold = price !== undefined || spotPrice !== undefined;
  if (!isSold || cpu <= 0 || memoryMiB <= 0) return undefined;
  if (!known && isBeyondFile(type)) return undefined;
  // 0 removes the dedicated offer, while a missing price means the on-demand price. A region without any dedicated price says
  // nothing about a type.
  const noDedicated = dedicated.size > 0 ? 0 : undefined;
  return {
    instanceType: name,
    price: price ?? 0,
    ...defined({ spotPrice, dedicatedPrice: dedicated.get(name) ?? noDedicated }),
    cpu,
    memory: memoryMiB / 1024,
    ...gpusOf(type, known),
    ...(isArm(type) && { architecture: "arm64" as const }),
  };
}

/** A type that kip knows keeps its kind and number of GPUs, because only kip's list has slices of GPUs. */
function gpusOf(
  { GpuInfo }: InstanceTypeInfo,
  known: OfferedInstanceType | undefined,
): Pick<PriceEntry, "gpu" | "supportedGPUTypes"> {
  if (known) return known.gpus > 0 ? { gpu: known.gpus } : {};
  const { Name: kind = "", Count: gpu = 0 } = GpuInfo?.Gpus?.[0] ?? {};
  return gpu > 0 ? { gpu, supportedGPUTypes: { [kind]: gpu } } : {};
}

function isArm({ ProcessorInfo }: InstanceTypeInfo): boolean {
  return ProcessorInfo?.SupportedArchitectures?.includes("arm64") === true;
}

/** Whether a type has properties that a price file cannot express. */
function isBeyondFile(type: InstanceTypeInfo): boolean {
  const { GpuInfo, FpgaInfo, InferenceAcceleratorInfo, NeuronInfo, MediaAcceleratorInfo } = type;
  const accelerators = [FpgaInfo, InferenceAcceleratorInfo, NeuronInfo, MediaAcceleratorInfo];
  return (
    type.BareMetal === true ||
    type.BurstablePerformanceSupported === true ||
    accelerators.some((each) => each !== undefined) ||
    (GpuInfo?.Gpus ?? []).some(({ Manufacturer }) => Manufacturer?.toUpperCase() !== "NVIDIA")
  );
}

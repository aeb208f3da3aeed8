import type { OfferedInstanceType } from "../offered-instance-type.ts";
import type { CloudFacts } from "./cloud-facts.ts";

const MiB = 2 ** 20;

/** The region for which prices of attached GPUs are known. */
const pricedRegion = "us-central1";

/**
 * How many cores a Compute Engine machine may have for each attached GPU.
 *
 * @see https://cloud.google.com/compute/docs/gpus
 */
const maxCpusPerGpu: Readonly<Record<string, number>> = {
  "nvidia-tesla-p100": 16,
  "nvidia-tesla-p4": 24,
  "nvidia-tesla-t4": 24,
  "nvidia-tesla-v100": 12,
};

/**
 * The types that result from attaching GPUs to a type. Their names combine those of type and GPUs, as in
 * `n1-standard-4+2xnvidia-tesla-t4`.
 */
export function withAttachedGpus(
  type: OfferedInstanceType,
  facts: CloudFacts,
  region: string,
): readonly OfferedInstanceType[] {
  if (region !== pricedRegion) return [];
  return Object.entries(facts.attachableGpuPrices ?? {}).flatMap(([acceleratorType, gpu]) => {
    const most = facts.attachableGpuCounts?.[acceleratorType] ?? 0;
    const counts = [1, 2, 4, 8].filter((count) => count <= most);
    const allowed = counts.filter(
      (count) => type.cpuMilli <= count * 1000 * (maxCpusPerGpu[acceleratorType] ?? 0),
    );
    return allowed.map((count) => {
      const added = { "on-demand": gpu.onDemandUsCentral1, spot: gpu.spotUsCentral1 };
      return {
        ...type,
        name: `${type.name}+${count}x${acceleratorType}`,
        gpus: count,
        gpuModel: {
          manufacturer: gpu.manufacturer === "amd" ? ("amd" as const) : ("nvidia" as const),
          name: gpu.name,
          memoryBytes: gpu.memoryMiB * MiB,
          acceleratorType,
        },
        pricePerHour: withAdded(type.pricePerHour, added, count),
      };
    });
  });
}

function withAdded(
  prices: OfferedInstanceType["pricePerHour"],
  added: Readonly<Record<string, number>>,
  count: number,
): OfferedInstanceType["pricePerHour"] {
  return Object.fromEntries(
    Object.entries(prices).flatMap(([launchType, price]) => {
      const each = added[launchType];
      return price === undefined || each === undefined ? [] : [[launchType, price + count * each]];
    }),
  );
}

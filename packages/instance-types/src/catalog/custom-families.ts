import type { CustomFamily } from "../offered-instance-type.ts";
import type { CloudFacts } from "./cloud-facts.ts";

const GiB = 2 ** 30;

/** The families of a cloud whose machines can have any size, with their prices in a region. */
export function customFamilies(facts: CloudFacts, region: string): readonly CustomFamily[] {
  const prices = facts.customPrices?.[region] ?? {};
  return Object.entries(facts.customFamilies ?? {}).flatMap(([name, shape]) => {
    const price = prices[name];
    if (!price) return [];
    const family: CustomFamily = {
      name,
      // n1, the first family with custom types, does not appear in the names of its types.
      namePrefix: name === "n1" ? "custom" : `${name}-custom`,
      cpus: shape.vcpus,
      minMemoryPerCpu: shape.minGiBPerVcpu * GiB,
      maxMemoryPerCpu: shape.maxGiBPerVcpu * GiB,
      memoryStep: shape.memoryStepGiB * GiB,
      architecture: "amd64",
      pricePerHour: { "on-demand": { perCpu: price.pricePerVcpu, perGiB: price.pricePerGiB } },
    };
    return [family];
  });
}

import { hoursPerMonth, type Candidate, type Catalog } from "@kip/instance-types";
import type { Prices } from "./price-pods.ts";
import { reasonsOf } from "./price-text.ts";

/** Prices as JSON. Amounts are US dollars, thousandths of a CPU, and bytes. */
export function priceJson(catalog: Catalog, { priced: prices, unpriced }: Prices): object {
  const { cloud, region, pricesOf, priceFile, isSpotEstimated } = catalog;
  const total = prices.reduce(
    (sum, { pods, choice }) => sum + pods.replicas * choice.pricePerHour,
    0,
  );
  return {
    cloud,
    region,
    pricesOf: pricesOf ?? null,
    ...(priceFile !== undefined && { priceFile }),
    spotPricesEstimated: isSpotEstimated,
    currency: "USD",
    hoursPerMonth,
    pods: prices.map((price) => ({
      kind: price.pods.kind,
      name: price.pods.name,
      ...(price.pods.namespace !== undefined && { namespace: price.pods.namespace }),
      replicas: price.pods.replicas,
      request: price.request,
      choice: candidateJson(price.choice),
      runnerUp: price.runnerUp ? candidateJson(price.runnerUp) : null,
      why: reasonsOf(price),
    })),
    ...(unpriced.length > 0 && {
      unpriced: unpriced.map(({ pods: { kind, name, namespace }, error }) => ({
        kind,
        name,
        ...(namespace !== undefined && { namespace }),
        reason: error.message,
      })),
    }),
    total: { pricePerHour: total, pricePerMonth: total * hoursPerMonth },
  };
}

function candidateJson({ type, launchType, pricePerHour, burstPricePerHour }: Candidate): object {
  return {
    instanceType: type.name,
    launchType,
    cpuMilli: type.cpuMilli,
    podMemoryBytes: type.memoryBytes,
    gpus: type.gpus,
    ...(type.gpuModel && { gpu: type.gpuModel.name }),
    ...(type.localDiskBytes !== undefined && { localDiskBytes: type.localDiskBytes }),
    architecture: type.architecture ?? "amd64",
    pricePerHour,
    burstPricePerHour,
    pricePerMonth: pricePerHour * hoursPerMonth,
  };
}

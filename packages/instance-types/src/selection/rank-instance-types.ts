import type { InstanceTypeOffers, OfferedInstanceType } from "../offered-instance-type.ts";
import { customType } from "./custom-type.ts";
import { burstPrice, isTooSlow, judgeType, zonesLeft } from "./judge.ts";
import { takeInOrder } from "./lazy-heap.ts";
import type { InstanceTypeRequest } from "./request.ts";

/** A type that fits, with one of the requested launch types. */
export interface Candidate {
  readonly type: OfferedInstanceType;
  readonly launchType: string;
  /** US dollars, including the price of cores above the baseline. */
  readonly pricePerHour: number;
  /** Part of the price: for CPU that the request needs above the type's baseline. 0 for most types. */
  readonly burstPricePerHour: number;
  /** Zones in which it may be launched, at least one. Undefined if not known. */
  readonly zones: readonly string[] | undefined;
}

/**
 * Yields the types that fit, best first: the cheapest, then the smallest (CPU, memory, GPUs), then by name and launch type.
 * Each type is checked once, when the caller takes the first result. Results that the caller does not take are never sorted.
 *
 * @example
 * ```ts
 * import { openCatalog, rankInstanceTypes } from "@kip/instance-types";
 *
 * const request = { cpuMilli: 500, memoryBytes: 2 ** 30, gpus: 0, launchTypes: ["on-demand"] };
 * const [best, next] = rankInstanceTypes(openCatalog("aws", "us-east-1"), request).take(2);
 * assert.ok(best && next && best.pricePerHour <= next.pricePerHour);
 * ```
 */
export function* rankInstanceTypes(
  offers: InstanceTypeOffers,
  request: InstanceTypeRequest,
): IteratorObject<Candidate, undefined> {
  const fitting: Candidate[] = [];
  const zonesOf = zonesLeft(request);
  for (const type of offeredTypes(offers, request)) {
    if (judgeType(type, request) !== undefined) continue;
    for (const launchType of request.launchTypes) {
      const price = type.pricePerHour[launchType];
      if (price === undefined || isTooSlow(type, launchType, request)) continue;
      const zones = zonesOf(type, launchType);
      if (zones?.length === 0) continue;
      const burstPricePerHour = burstPrice(type, launchType, request);
      const pricePerHour = price + burstPricePerHour;
      fitting.push({ type, launchType, pricePerHour, burstPricePerHour, zones });
    }
  }
  yield* takeInOrder(fitting, compareCandidates);
}

/** The types of the list, followed by the best fitting type of each family. */
export function offeredTypes(
  { types, families = [] }: InstanceTypeOffers,
  request: InstanceTypeRequest,
): readonly OfferedInstanceType[] {
  if (families.length === 0) return types;
  return [...types, ...families.flatMap((family) => customType(family, request) ?? [])];
}

function compareCandidates(a: Candidate, b: Candidate): number {
  return (
    a.pricePerHour - b.pricePerHour ||
    compareSize(a.type, b.type) ||
    compareText(a.type.name, b.type.name) ||
    compareText(a.launchType, b.launchType)
  );
}

/** Compares by CPU, then memory, then GPUs. */
export function compareSize(a: OfferedInstanceType, b: OfferedInstanceType): number {
  return a.cpuMilli - b.cpuMilli || a.memoryBytes - b.memoryBytes || a.gpus - b.gpus;
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

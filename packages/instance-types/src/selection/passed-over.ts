import type { InstanceTypeOffers, OfferedInstanceType } from "../offered-instance-type.ts";
import { burstPrice, isTooSlow, judgeType, zonesLeft, type Rejection } from "./judge.ts";
import { offeredTypes, type Candidate } from "./rank-instance-types.ts";
import type { InstanceTypeRequest } from "./request.ts";

/** A type that costs less than the chosen one, and why it was not chosen. */
export interface PassedOver {
  readonly type: OfferedInstanceType;
  readonly launchType: string;
  /** US dollars. */
  readonly pricePerHour: number;
  readonly reason: Rejection;
}

/** Explains a choice. */
export interface Explanation {
  /** Number of types on offer with one of the requested launch types. */
  readonly offered: number;
  /** Number of those that fit and are available. */
  readonly fitting: number;
  /**
   * For each reason why a cheaper type was not chosen, one such type; the cheapest comes first. If types are too small, it is
   * the most expensive one. Otherwise it is the cheapest one that would fit if the pod named it. Types with GPUs of another
   * kind are left out.
   */
  readonly passedOver: readonly PassedOver[];
}

/** Explains how the first result of `rankInstanceTypes` was found. */
export function explainChoice(
  offers: InstanceTypeOffers,
  request: InstanceTypeRequest,
  choice: Candidate,
): Explanation {
  const noted = new Map<Rejection, PassedOver>();
  const zonesOf = zonesLeft(request);
  let offered = 0;
  let fitting = 0;
  for (const type of offeredTypes(offers, request)) {
    const sold = request.launchTypes.filter((each) => type.pricePerHour[each] !== undefined);
    const reason = judgeType(type, request);
    const left = sold.filter(
      (each) => !isTooSlow(type, each, request) && zonesOf(type, each)?.length !== 0,
    );
    if (sold.length > 0) offered += 1;
    if (reason === undefined && left.length > 0) fitting += 1;
    const passed = reason === undefined ? sold.filter((each) => !left.includes(each)) : sold;
    for (const launchType of passed) {
      const pricePerHour =
        (type.pricePerHour[launchType] ?? 0) + burstPrice(type, launchType, request);
      const other = isTooSlow(type, launchType, request) ? "burst" : "unavailable";
      const each: PassedOver = { type, launchType, pricePerHour, reason: reason ?? other };
      if (pricePerHour < choice.pricePerHour && isWorthSaying(each, request, noted))
        noted.set(each.reason, each);
    }
  }
  const passedOver = [...noted.values()].sort((a, b) => a.pricePerHour - b.pricePerHour);
  return { offered, fitting, passedOver };
}

function isWorthSaying(
  { type, pricePerHour, reason }: PassedOver,
  request: InstanceTypeRequest,
  noted: ReadonlyMap<Rejection, PassedOver>,
): boolean {
  const other = noted.get(reason);
  if (reason === "gpu") return false;
  if (reason === "cpu" || reason === "burst" || reason === "memory")
    return other === undefined || pricePerHour > other.pricePerHour;
  if (other !== undefined && pricePerHour >= other.pricePerHour) return false;
  const architectures = [type.architecture ?? "amd64"];
  return judgeType(type, { ...request, architectures, typeGlob: type.name }) === undefined;
}

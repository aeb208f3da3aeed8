import type { InstanceTypeOffers, OfferedInstanceType } from "../offered-instance-type.ts";
import { burstPrice, isTooSlow, judgeType, zonesLeft, type Rejection } from "./judge.ts";
import { offeredTypes, type Candidate } from "./rank-instance-types.ts";
import type { InstanceTypeRequest } from "./request.ts";

/** A type that costs less than the one that was chosen, and why it was not. */
export interface PassedOver {
  readonly type: OfferedInstanceType;
  readonly launchType: string;
  /** US dollars. */
  readonly pricePerHour: number;
  readonly reason: Rejection;
}

/** How a choice came about. */
export interface Explanation {
  /** Types on offer with one of the launch types asked for. */
  readonly offered: number;
  /** Those that fit and can be had. */
  readonly fitting: number;
  /**
   * One for each reason that some type costs less than the choice and was not taken, cheapest first. Too small a type: the
   * dearest of them. Otherwise the cheapest that would be large enough if it were asked for; GPUs of another kind are left out.
   */
  readonly passedOver: readonly PassedOver[];
}

/** Says how the first of `rankInstanceTypes` was found. */
export function explainChoice(
  offers: InstanceTypeOffers,
  request: InstanceTypeRequest,
  choice: Candidate,
): Explanation {
  const noted = new Map<Rejection, PassedOver>();
  let offered = 0;
  let fitting = 0;
  for (const type of offeredTypes(offers, request)) {
    const sold = request.launchTypes.filter((each) => type.pricePerHour[each] !== undefined);
    const reason = judgeType(type, request);
    const left = sold.filter(
      (each) => !isTooSlow(type, each, request) && zonesLeft(type, each, request)?.length !== 0,
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

import type { InstanceTypeOffers } from "../offered-instance-type.ts";
import { nothingFits } from "./nothing-fits.ts";
import { rankInstanceTypes, type Candidate } from "./rank-instance-types.ts";
import type { InstanceTypeRequest } from "./request.ts";

/**
 * The first of {@link rankInstanceTypes}: the cheapest type that gives a pod what it asks for.
 *
 * @throws {InstanceTypeError} `NO_INSTANCE_TYPE_FITS`, not retryable unless types that fit are unavailable now; the
 * message says what was asked for and what the biggest type on offer has
 */
export function selectInstanceType(
  offers: InstanceTypeOffers,
  request: InstanceTypeRequest,
): Candidate {
  const [best] = rankInstanceTypes(offers, request);
  if (!best) throw nothingFits(offers, request);
  return best;
}

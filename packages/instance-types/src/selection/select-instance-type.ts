import type { InstanceTypeOffers } from "../offered-instance-type.ts";
import { nothingFits } from "./nothing-fits.ts";
import { rankInstanceTypes, type Candidate } from "./rank-instance-types.ts";
import type { InstanceTypeRequest } from "./request.ts";

/**
 * The first result of {@link rankInstanceTypes}: the cheapest type that has what a pod requests.
 *
 * @throws {InstanceTypeError} `NO_INSTANCE_TYPE_FITS`, not retryable unless types that fit are currently unavailable. The
 * message names the request and the largest type on offer
 */
export function selectInstanceType(
  offers: InstanceTypeOffers,
  request: InstanceTypeRequest,
): Candidate {
  const [best] = rankInstanceTypes(offers, request);
  if (!best) throw nothingFits(offers, request);
  return best;
}

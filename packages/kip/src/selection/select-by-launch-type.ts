import type { LaunchType } from "@kip/cloud";
import {
  InstanceTypeError,
  selectInstanceType,
  type Candidate,
  type InstanceTypeOffers,
  type InstanceTypeRequest,
} from "@kip/instance-types";

/**
 * The best machine of the first launch type that has any, whatever one of the next launch type costs.
 *
 * @param launchTypes at most two. @default on-demand
 * @throws {InstanceTypeError} `NO_INSTANCE_TYPE_FITS`
 */
export function selectByLaunchType(
  offers: InstanceTypeOffers,
  request: InstanceTypeRequest,
  [first = "on-demand", next]: readonly LaunchType[],
): Candidate & { readonly launchType: LaunchType } {
  const select = (launchType: LaunchType): Candidate & { readonly launchType: LaunchType } => ({
    ...selectInstanceType(offers, { ...request, launchTypes: [launchType] }),
    launchType,
  });
  try {
    return select(first);
  } catch (error) {
    if (next === undefined || !InstanceTypeError.is(error, "NO_INSTANCE_TYPE_FITS")) throw error;
    return select(next);
  }
}

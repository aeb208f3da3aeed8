import type { Logger } from "@kip/base";
import type { InstanceTypeOffer } from "@kip/cloud";
import type { Ec2 } from "../ec2/ec2-calls.ts";
import { instanceTypes } from "../prices/offer.ts";

/**
 * The offers of a region, those of types that no dedicated host takes without a dedicated price. If EC2 does not say which these are,
 * nothing is changed: a launch on a host then finds out, by its refusal.
 */
export async function hostedOffers(
  ec2: Ec2,
  offers: readonly InstanceTypeOffer[],
  logger: Logger,
): Promise<readonly InstanceTypeOffer[]> {
  // These are fewer than those that hosts take: three calls instead of twelve.
  const filters = [{ Name: "dedicated-hosts-supported", Values: ["false"] }];
  try {
    const types = await instanceTypes(ec2, { filters });
    const others = types.filter((each) => each.DedicatedHostsSupported === false);
    const names = new Set<string>(others.flatMap(({ InstanceType }) => InstanceType ?? []));
    return offers.map((offer) => (names.has(offer.name) ? withoutDedicated(offer) : offer));
  } catch (err) {
    logger.warn("Could not ask EC2 which types can be on dedicated hosts", { err });
    return offers;
  }
}

function withoutDedicated(offer: InstanceTypeOffer): InstanceTypeOffer {
  const { dedicated: _dedicated, ...pricePerHour } = offer.pricePerHour;
  return { ...offer, pricePerHour };
}

import type { Logger } from "@kip/base";
import type { InstanceTypeOffer } from "@kip/cloud";
import type { Ec2 } from "../ec2/ec2-calls.ts";
import { instanceTypes } from "../prices/offer.ts";

/**
 * A region's offers, without the dedicated price of types that no dedicated host takes. If EC2 does not return these types, the
 * offers stay unchanged, and EC2 refuses the launch on a host.
 */
export async function hostedOffers(
  ec2: Ec2,
  offers: readonly InstanceTypeOffer[],
  logger: Logger,
): Promise<readonly InstanceTypeOffer[]> {
  // There are fewer of these types than of those that hosts take: three calls instead of twelve.
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

import type { InstanceTypeOffer } from "@kip/cloud";
import { openCatalog } from "@kip/instance-types";

/** The region that the local EC2 imitates. */
export const ec2Region = "us-east-1";

/** Its instance types with their prices on AWS. */
export function ec2Offers(): readonly InstanceTypeOffer[] {
  return openCatalog("aws", ec2Region).types;
}

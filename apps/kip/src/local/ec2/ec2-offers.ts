import type { InstanceTypeOffer } from "@kip/cloud";
import { openCatalog } from "@kip/instance-types";

/** The region that is imitated. */
export const ec2Region = "us-east-1";

/** Types of instances there, and what they would cost. */
export function ec2Offers(): readonly InstanceTypeOffer[] {
  return openCatalog("aws", ec2Region).types;
}

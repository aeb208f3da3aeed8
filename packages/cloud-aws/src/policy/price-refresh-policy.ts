import type { Ec2Action } from "../ec2/ec2-calls.ts";
import { priceListAction } from "../prices/price-list.ts";
import type { Policy } from "./policy.ts";

const readOfEc2: readonly Ec2Action[] = ["DescribeInstanceTypes", "DescribeSpotPriceHistory"];

/**
 * The minimal policy for a person who runs `kip prices refresh`. It only allows reading public information. kip itself needs
 * none of it.
 */
export function priceRefreshPolicy(): Policy {
  const ofEc2 = readOfEc2.map((name) => `ec2:${name}`);
  const Action = [`pricing:${priceListAction}`, ...ofEc2];
  return {
    Version: "2012-10-17",
    Statement: [{ Sid: "ReadPrices", Effect: "Allow", Action, Resource: ["*"] }],
  };
}

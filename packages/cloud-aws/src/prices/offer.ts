import type { Filter, InstanceTypeInfo, SpotPrice } from "@aws-sdk/client-ec2";
import { allPages } from "../ec2/all-pages.ts";
import type { Ec2 } from "../ec2/ec2-calls.ts";

/** Options of {@link instanceTypes}. */
export interface InstanceTypesOptions {
  /** @default all types */
  readonly filters?: readonly Filter[] | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Types of a region. */
export async function instanceTypes(
  ec2: Ec2,
  { filters = [], signal }: InstanceTypesOptions = {},
): Promise<readonly InstanceTypeInfo[]> {
  const input = { MaxResults: 100, ...(filters.length > 0 && { Filters: [...filters] }) };
  const purpose = "list instance types";
  const pages = await allPages(ec2, "DescribeInstanceTypes", input, { purpose, signal });
  return pages.flatMap(({ InstanceTypes = [] }) => InstanceTypes);
}

/**
 * Current prices of spot instances by type: the price of the most expensive zone, so that no zone costs more.
 *
 * @param zones the zones to use; empty: all of the region
 * @param now ISO 8601
 */
export async function spotPrices(
  ec2: Ec2,
  options: {
    readonly zones: readonly string[];
    readonly now: Date;
    readonly signal?: AbortSignal | undefined;
  },
): Promise<ReadonlyMap<string, number>> {
  const { zones, now, signal } = options;
  const pages = await allPages(
    ec2,
    "DescribeSpotPriceHistory",
    {
      ProductDescriptions: ["Linux/UNIX"],
      // A history that begins now has each type's current price.
      StartTime: now,
      MaxResults: 1000,
      ...(zones.length > 0 && { Filters: [{ Name: "availability-zone", Values: [...zones] }] }),
    },
    { purpose: "read spot prices", signal },
  );
  const newest = new Map<string, SpotPrice>();
  for (const each of pages.flatMap(({ SpotPriceHistory = [] }) => SpotPriceHistory)) {
    const key = `${each.InstanceType} ${each.AvailabilityZone}`;
    const known = newest.get(key);
    if ((known?.Timestamp?.getTime() ?? 0) <= (each.Timestamp?.getTime() ?? 0))
      newest.set(key, each);
  }
  const prices = new Map<string, number>();
  for (const { InstanceType: type = "", SpotPrice } of newest.values()) {
    const price = Number(SpotPrice);
    if (price > (prices.get(type) ?? 0)) prices.set(type, price);
  }
  return prices;
}

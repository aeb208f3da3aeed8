import { systemClock, type Clock } from "@kip/base";
import { CloudError } from "@kip/cloud";
import { builtInTypes, type PriceEntry } from "@kip/instance-types";
import { credentialsOf, findRegion, type ConnectionSettings } from "../connection.ts";
import { openSdkEc2 } from "../ec2/sdk-ec2.ts";
import { openMetadata } from "../network/metadata.ts";
import { instanceTypes, spotPrices } from "./offer.ts";
import { priceEntries } from "./price-entries.ts";
import { onDemandPrices } from "./price-list.ts";

/** Options of {@link readRegionPrices}. */
export interface ReadRegionPricesOptions extends ConnectionSettings {
  /** Zones whose spot prices are used. @default all of the region */
  readonly zones?: readonly string[] | undefined;
  /** URL of the EC2 API. @default the region's */
  readonly endpointURL?: string | undefined;
  /** URL of the Price List. @default that of a region that has one */
  readonly pricingEndpointURL?: string | undefined;
  readonly clock?: Clock | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Types and prices of a region today. */
export interface RegionPriceEntries {
  readonly region: string;
  /** By name. */
  readonly entries: readonly PriceEntry[];
}

/**
 * Types of a region with today's prices: on-demand and dedicated prices from the Price List, spot prices from their history.
 *
 * @throws {CloudError} also `CLOUD_UNKNOWN` if AWS has no price of any type
 * @throws {DecodeError} `DECODE_FAILED`
 * @throws the signal's reason
 */
export async function readRegionPrices(
  options: ReadRegionPricesOptions,
): Promise<RegionPriceEntries> {
  const { zones = [], clock = systemClock, signal, environment } = options;
  const region = await findRegion(options, openMetadata(environment));
  const credentials = credentialsOf(options);
  const { endpointURL } = options;
  using ec2 = await openSdkEc2({ region, credentials, endpointURL, policy: "--prices" });
  const list = { region, credentials, endpointURL: options.pricingEndpointURL, signal };
  const now = new Date(clock.now());
  // First, because this call finds most mistakes.
  const onDemand = await onDemandPrices("Shared", list);
  if (onDemand.size === 0) throw withoutPrices(region);
  const [dedicated, types, spot] = await Promise.all([
    onDemandPrices("Dedicated", list),
    instanceTypes(ec2, { signal }),
    spotPrices(ec2, { zones, now, signal }),
  ]);
  const known = new Map(builtInTypes("aws").map((type) => [type.name, type]));
  const entries = priceEntries({ types, spot, onDemand, dedicated }, known);
  if (entries.length === 0) throw withoutPrices(region);
  return { region, entries };
}

function withoutPrices(region: string): CloudError {
  return new CloudError(
    "CLOUD_UNKNOWN",
    `Cannot read the prices of region "${region}": AWS has no price of any type there`,
    { remedy: "Check the name of the region, and whether the account has it enabled" },
  );
}

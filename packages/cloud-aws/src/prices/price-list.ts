import type { Filter } from "@aws-sdk/client-pricing";
import { decode, DecodeError, defined } from "@kip/base";
import { CloudError } from "@kip/cloud";
import { sendUntilAborted, timeLimits, type ConnectionSettings } from "../connection.ts";
import { cloudErrorOf } from "../errors/cloud-error-of.ts";
import { partitionOf } from "../partition.ts";

/** The only action of the Price List that this driver calls. */
export const priceListAction = "GetProducts";

/** Connection options for the Price List. */
export interface PriceListOptions {
  /** Region whose prices are asked for. */
  readonly region: string;
  readonly credentials?: ConnectionSettings["credentials"];
  /** @default the one of the nearest region that has an endpoint */
  readonly endpointURL?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Whether instances share their computer with other accounts' instances. */
export type Tenancy = "Shared" | "Dedicated";

/** Regions whose endpoint serves the whole partition. The first one is used unless the region itself is listed. */
const endpoints: Readonly<Record<string, readonly string[]>> = {
  aws: ["us-east-1", "eu-central-1", "ap-south-1"],
  "aws-cn": ["cn-northwest-1"],
};
const requestLimitMs = 30_000;
const connectionLimitMs = 5000;
/** How often a page is requested before the call fails. The SDK waits longer each time. */
const attempts = 6;

/**
 * On-demand prices of a region by instance type: Linux without further software, per hour, in the partition's currency.
 *
 * @throws {CloudError} `CLOUD_INVALID_REQUEST` in a partition without a Price List; others of the closed set
 * @throws {DecodeError} `DECODE_FAILED` for a product in another format
 * @see https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/using-price-list-query-api.html
 */
export async function onDemandPrices(
  tenancy: Tenancy,
  { region, credentials, endpointURL, signal }: PriceListOptions,
): Promise<ReadonlyMap<string, number>> {
  const sdk = await import("@aws-sdk/client-pricing");
  const client = new sdk.PricingClient(
    defined({
      region: endpointRegion(region),
      credentials,
      endpoint: endpointURL,
      maxAttempts: attempts,
      requestHandler: timeLimits(requestLimitMs, connectionLimitMs),
    }),
  );
  const prices = new Map<string, number>();
  try {
    let NextToken: string | undefined;
    do {
      const command = new sdk.GetProductsCommand({
        ServiceCode: "AmazonEC2",
        FormatVersion: "aws_v1",
        Filters: filtersOf(region, tenancy),
        MaxResults: 100,
        NextToken,
      });
      const answer = await sendUntilAborted(
        async (options) => await client.send(command, options),
        signal,
      );
      for (const product of answer.PriceList ?? []) {
        const found = readProduct(String(product));
        if (found) prices.set(found.instanceType, found.price);
      }
      NextToken = answer.NextToken === "" ? undefined : answer.NextToken;
    } while (NextToken !== undefined);
    return prices;
  } catch (cause) {
    signal?.throwIfAborted();
    if (DecodeError.is(cause)) throw cause;
    const purpose = `read the prices of region "${region}"`;
    const call = {
      purpose,
      service: "pricing",
      action: priceListAction,
      policy: "--prices",
    } as const;
    throw cloudErrorOf(cause, call);
  } finally {
    client.destroy();
  }
}

function endpointRegion(region: string): string {
  const partition = partitionOf(region);
  const known = endpoints[partition] ?? [];
  const found = known.find((each) => each === region) ?? known[0];
  if (found !== undefined) return found;
  throw new CloudError(
    "CLOUD_INVALID_REQUEST",
    `Cannot read the prices of region "${region}": the partition ${partition} has no Price List`,
    { remedy: "Write a file of prices by hand (docs/instance-selection.md)" },
  );
}

function filtersOf(regionCode: string, tenancy: Tenancy): Filter[] {
  const fields = {
    regionCode,
    tenancy,
    operatingSystem: "Linux",
    preInstalledSw: "NA",
    // Excludes the cost of an unused reservation and capacity blocks.
    capacitystatus: "Used",
    marketoption: "OnDemand",
  };
  return Object.entries(fields).map(([Field, Value]) => ({ Type: "TERM_MATCH", Field, Value }));
}

const { map, object, optional, string } = decode;
/** The fields of a product that the driver uses. */
const decodeProduct = object({
  product: object({
    attributes: object({ instanceType: optional(string), operation: optional(string) }),
  }),
  terms: object({
    OnDemand: optional(
      map(
        object({
          effectiveDate: string,
          priceDimensions: map(object({ unit: string, pricePerUnit: map(string) })),
        }),
      ),
    ),
  }),
});

/** Type and price of a product, from JSON text. Undefined for a product with more than Linux, or without an hourly price. */
function readProduct(
  text: string,
): { readonly instanceType: string; readonly price: number } | undefined {
  const { product, terms } = decodeProduct(JSON.parse(text), "product");
  const { instanceType, operation } = product.attributes;
  if (instanceType === undefined || operation !== "RunInstances") return undefined;
  const offers = Object.values(terms.OnDemand ?? {});
  const [offer] = offers.sort((a, b) => b.effectiveDate.localeCompare(a.effectiveDate));
  const rate = Object.values(offer?.priceDimensions ?? {}).find(({ unit }) => unit === "Hrs");
  const price = Number(Object.values(rate?.pricePerUnit ?? {})[0]);
  return price > 0 ? { instanceType, price } : undefined;
}

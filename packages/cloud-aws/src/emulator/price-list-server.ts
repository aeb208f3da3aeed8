import { once } from "node:events";
import { createServer } from "node:http";
import { json } from "node:stream/consumers";
import { portOf } from "@kip/base";

/** A product of the Price List, with the attributes and prices that the driver uses. */
export interface ListedPrice {
  readonly instanceType: string;
  readonly price: number;
  /** Attributes that differ from those of plain Linux with shared tenancy. */
  readonly attributes?: Readonly<Record<string, string>> | undefined;
}

/** A GetProducts request. */
interface GetProducts {
  readonly Filters?: readonly { readonly Field: string; readonly Value: string }[];
  readonly MaxResults?: number;
  readonly NextToken?: string;
}

/**
 * The Price List's query API on loopback, which moto lacks: GetProducts with filters and pages, and products in the documented
 * format.
 *
 * @see https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_pricing_GetProducts.html
 */
export class PriceListServer implements AsyncDisposable {
  /** Answered requests, for tests of their filters. */
  readonly requests: GetProducts[] = [];
  /** Error codes for the next requests. */
  readonly faults: string[] = [];
  /** Further products to return, JSON texts. */
  readonly others: string[] = [];
  readonly #prices: readonly ListedPrice[];
  readonly #region: string;
  readonly #server = createServer((request, response) => {
    void (async () => {
      const asked = (await json(request)) as GetProducts;
      const fault = this.faults.shift();
      const body = fault === undefined ? this.#answer(asked) : { __type: fault, message: fault };
      response.writeHead(fault === undefined ? 200 : 400, {
        "content-type": "application/x-amz-json-1.1",
      });
      response.end(JSON.stringify(body));
    })().catch(() => request.socket.destroy());
  });

  constructor(region: string, prices: readonly ListedPrice[]) {
    this.#region = region;
    this.#prices = prices;
  }

  async start(): Promise<string> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    return `http://127.0.0.1:${portOf(this.#server)}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }

  #answer(asked: GetProducts): object {
    this.requests.push(asked);
    const { Filters = [], MaxResults = 100, NextToken = "0" } = asked;
    const all = this.#prices
      .map((each) => ({ ...each, attributes: this.#attributesOf(each) }))
      .filter(({ attributes }) => Filters.every(({ Field, Value }) => attributes[Field] === Value));
    const from = Number(NextToken);
    const page = all.slice(from, from + MaxResults);
    const isLast = from + MaxResults >= all.length;
    return {
      FormatVersion: "aws_v1",
      PriceList: [...page.map(productText), ...(isLast ? this.others : [])],
      ...(!isLast && { NextToken: String(from + MaxResults) }),
    };
  }

  #attributesOf({ instanceType, attributes }: ListedPrice): Record<string, string> {
    return {
      servicecode: "AmazonEC2",
      regionCode: this.#region,
      instanceType,
      operatingSystem: "Linux",
      preInstalledSw: "NA",
      tenancy: "Shared",
      capacitystatus: "Used",
      marketoption: "OnDemand",
      operation: "RunInstances",
      ...attributes,
    };
  }
}

function productText(product: {
  readonly instanceType: string;
  readonly price: number;
  readonly attributes: Readonly<Record<string, string>>;
}): string {
  const { attributes, price } = product;
  const sku = attributes["instanceType"] ?? "";
  const rate = (usd: string, unit: string) => ({ unit, pricePerUnit: { USD: usd } });
  const offer = (effectiveDate: string, usd: number) => ({
    sku,
    effectiveDate,
    priceDimensions: {
      [`${sku}.quantity`]: rate("0.0000000000", "Quantity"),
      [`${sku}.hours`]: rate(usd.toFixed(10), "Hrs"),
    },
  });
  return JSON.stringify({
    serviceCode: "AmazonEC2",
    product: { productFamily: "Compute Instance", sku, attributes },
    terms: {
      OnDemand: {
        [`${sku}.old`]: offer("2025-01-01T00:00:00Z", price * 2),
        [`${sku}.new`]: offer("2026-11-01T00:00:00Z", price),
      },
    },
  });
}

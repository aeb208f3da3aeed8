// Types and spot prices from moto, and on-demand prices from a server with the Price List's format, with the real SDKs.
import assert from "node:assert/strict";
import { after, it } from "node:test";
import { DecodeError } from "@kip/base";
import { CloudError } from "@kip/cloud";
import { whyNoMoto } from "../src/emulator/moto-server.ts";
import { PriceListServer } from "../src/emulator/price-list-server.ts";
import { priceRefreshPolicy } from "../src/policy/index.ts";
import { readRegionPrices } from "../src/prices/index.ts";
import { openTestEc2 } from "./support/test-ec2.ts";

const skip = await whyNoMoto();
if (skip === undefined) await describePrices();
else it("EC2: prices", { skip }, () => {});

async function describePrices(): Promise<void> {
  const ec2 = await openTestEc2();
  after(() => ec2[Symbol.asyncDispose]());
  // More than one page.
  const fillers = Array.from({ length: 150 }, (_, index) => ({
    instanceType: `filler.${index}`,
    price: 1,
  }));
  const dedicated = { tenancy: "Dedicated" };
  const list = new PriceListServer("us-east-1", [
    ...fillers,
    { instanceType: "m5.large", price: 0.096 },
    { instanceType: "m5.large", price: 0.188, attributes: { operatingSystem: "Windows" } },
    { instanceType: "m5.large", price: 0.196, attributes: { preInstalledSw: "SQL Std" } },
    { instanceType: "m5.large", price: 9, attributes: { operation: "RunInstances:FFP" } },
    { instanceType: "m5.large", price: 0.09, attributes: { capacitystatus: "AllocatedHost" } },
    { instanceType: "m5.large", price: 0.12, attributes: dedicated },
    { instanceType: "m5.large", price: 0.05, attributes: { regionCode: "eu-west-1" } },
    { instanceType: "t4g.nano", price: 0.0042 },
    { instanceType: "g4dn.xlarge", price: 0.526 },
  ]);
  after(() => list[Symbol.asyncDispose]());
  const pricingEndpointURL = await list.start();
  const read = async (region = "us-east-1") =>
    await readRegionPrices({
      region,
      zones: [`${region}a`], // moto is slow
      credentials: { accessKeyId: "test", secretAccessKey: "test" },
      endpointURL: ec2.endpointURL,
      pricingEndpointURL,
    });

  it("prices: those of plain Linux in the region, of all pages, with sizes and spot prices of EC2; throttled calls are repeated", async () => {
    list.faults.push("ThrottlingException", "ThrottlingException");
    const { region, entries } = await read();
    assert.equal(region, "us-east-1");
    const of = (name: string) => entries.find(({ instanceType }) => instanceType === name);
    const { spotPrice, ...m5 } = of("m5.large") ?? {};
    assert.deepEqual(m5, {
      instanceType: "m5.large",
      price: 0.096,
      dedicatedPrice: 0.12,
      cpu: 2,
      memory: 8,
    });
    assert.ok((spotPrice ?? 0) > 0);
    assert.deepEqual([of("t4g.nano")?.architecture, of("t4g.nano")?.memory], ["arm64", 0.5]);
    assert.equal(of("g4dn.xlarge")?.gpu, 1);
    assert.equal(of("filler.1"), undefined, "EC2 does not have it");
    assert.equal(list.requests.length, 3, "two pages, and one of dedicated instances");
    assert.ok(entries.length > 100);
  });

  it("prices: a refusal names the right that is missing", async () => {
    list.faults.push("AccessDeniedException");
    await assert.rejects(read(), (error) => {
      assert.ok(CloudError.is(error, "CLOUD_AUTH"));
      assert.match(error.remedy ?? "", /^Allow pricing:GetProducts .*kip iam print --prices/);
      return true;
    });
  });

  it("prices: a product in another form is an error, not a price", async () => {
    list.others.push('{"product": {"attributes": {"instanceType": "m5.large"}}}');
    await assert.rejects(read(), (error) => DecodeError.is(error));
    list.others.length = 0;
  });

  it("prices: a region that the Price List does not have, or whose partition has none, is an error", async () => {
    await assert.rejects(
      read("us-west-2"),
      /Cannot read the prices of region "us-west-2": AWS has no price/,
    );
    await assert.rejects(read("us-gov-west-1"), /the partition aws-us-gov has no Price List/);
  });

  it("prices: no action is called that kip iam print --prices leaves out", () => {
    const allowed = priceRefreshPolicy().Statement.flatMap(({ Action }) => Action);
    const called = new Set(ec2.proxy.actions.map((action) => `ec2:${action}`));
    assert.equal(called.size, 2);
    for (const name of called) assert.ok(allowed.includes(name), name);
  });
}

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { FakeEc2 } from "../testing/fake-ec2.ts";
import { instanceTypes, spotPrices } from "./offer.ts";

const now = new Date("2026-11-27T00:00:00Z");

describe("spotPrices()", () => {
  const price = (zone: string, SpotPrice: string, hour: number) => ({
    InstanceType: "m5.large",
    AvailabilityZone: zone,
    SpotPrice,
    Timestamp: new Date(Date.UTC(2026, 10, 26, hour)),
  });
  const pages = [
    { SpotPriceHistory: [price("a", "0.03", 5), price("b", "0.09", 1)], NextToken: "next" },
    { SpotPriceHistory: [price("b", "0.04", 6)], NextToken: "" },
  ];

  it("takes the newest price of each zone, and of these the dearest", async () => {
    const asked: unknown[] = [];
    const ec2 = new FakeEc2({
      DescribeSpotPriceHistory: (input) => {
        asked.push(input);
        return pages[asked.length - 1];
      },
    });
    const prices = await spotPrices(ec2, { zones: ["a", "b"], now });
    assert.deepEqual([...prices], [["m5.large", 0.04]]);
    const common = {
      ProductDescriptions: ["Linux/UNIX"],
      StartTime: now,
      MaxResults: 1000,
      Filters: [{ Name: "availability-zone", Values: ["a", "b"] }],
    };
    assert.deepEqual(asked, [common, { ...common, NextToken: "next" }]);
  });
});

describe("instanceTypes()", () => {
  it("reads all pages", async () => {
    let page = 0;
    const ec2 = new FakeEc2({
      DescribeInstanceTypes: () => ({
        InstanceTypes: [{ InstanceType: page === 0 ? "m5.large" : "t3.nano" }],
        ...(page++ === 0 && { NextToken: "next" }),
      }),
    });
    const names = (await instanceTypes(ec2)).map(({ InstanceType }) => InstanceType);
    assert.deepEqual(names, ["m5.large", "t3.nano"]);
  });
});

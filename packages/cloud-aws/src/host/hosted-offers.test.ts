import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { DescribeInstanceTypesCommandInput } from "@aws-sdk/client-ec2";
import { silentLogger } from "@kip/base";
import { openCatalog } from "@kip/instance-types";
import { awsError, FakeEc2, type Answers } from "../testing/fake-ec2.ts";
import { hostedOffers } from "./hosted-offers.ts";

const offers = openCatalog("aws", "us-east-1").types;

/** Names of the types with a dedicated price, given this response of EC2. */
async function dedicatedOf(
  answer: NonNullable<Answers["DescribeInstanceTypes"]>,
): Promise<readonly string[]> {
  const ec2 = new FakeEc2({ DescribeInstanceTypes: answer });
  const found = await hostedOffers(ec2, offers, silentLogger);
  assert.equal(found.length, offers.length);
  for (const { name, pricePerHour } of found) assert.ok("on-demand" in pricePerHour, name);
  return found.filter(({ pricePerHour }) => "dedicated" in pricePerHour).map(({ name }) => name);
}

const before = offers.filter(({ pricePerHour }) => "dedicated" in pricePerHour);

describe("hostedOffers()", () => {
  it("offers no type as dedicated of which EC2 says that no host takes it, on any page", async () => {
    const pages = [
      [{ InstanceType: "m5a.large", DedicatedHostsSupported: false }],
      [{ InstanceType: "c5a.large", DedicatedHostsSupported: false }],
    ];
    const asked: unknown[] = [];
    const names = await dedicatedOf(({ Filters, NextToken }: DescribeInstanceTypesCommandInput) => {
      asked.push(Filters?.[0]?.Name, Filters?.[0]?.Values?.[0]);
      const page = Number(NextToken ?? 0);
      return { InstanceTypes: pages[page], ...(page === 0 && { NextToken: "1" }) };
    });
    assert.equal(names.length, before.length - 2);
    assert.deepEqual([names.includes("m5.large"), names.includes("m5a.large")], [true, false]);
    const filter = ["dedicated-hosts-supported", "false"];
    assert.deepEqual(asked, [...filter, ...filter]);
  });

  it("leaves the offers as they are if EC2 does not say it", async () => {
    const InstanceTypes = [{ InstanceType: "m5.large" }];
    assert.equal((await dedicatedOf(() => ({ InstanceTypes }))).length, before.length);
    const refused = () => {
      throw awsError("UnauthorizedOperation");
    };
    assert.equal((await dedicatedOf(refused)).length, before.length);
  });
});

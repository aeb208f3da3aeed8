import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type {
  DescribeRouteTablesCommandInput,
  DescribeSubnetsCommandInput,
  Route,
} from "@aws-sdk/client-ec2";
import { FakeEc2 } from "../testing/fake-ec2.ts";
import type { InstanceMetadata } from "./metadata.ts";
import { findPlace, subnetTag, type PlaceOptions } from "./place.ts";

const subnet = (id: string, zone: string, free: number, marked = false, vpc = "vpc-1") => ({
  SubnetId: id,
  VpcId: vpc,
  AvailabilityZone: zone,
  AvailableIpAddressCount: free,
  Tags: marked ? [{ Key: subnetTag, Value: "" }] : [],
});

const some = [
  subnet("subnet-a", "us-east-1a", 10),
  subnet("subnet-b", "us-east-1b", 20, true),
  subnet("subnet-c", "us-east-1c", 30, true),
  subnet("subnet-x", "us-east-1a", 40, true, "vpc-2"),
];

const internet: Route = {
  DestinationCidrBlock: "0.0.0.0/0",
  GatewayId: "igw-1",
  State: "active",
};

/** The subnets found for cells, with the default VPC's `some` and a machine in `subnet-a`. */
async function found(
  options: PlaceOptions,
  subnets = some,
  routes: readonly Route[] = [{ DestinationCidrBlock: "10.0.0.0/16", GatewayId: "local" }],
): Promise<readonly string[]> {
  const ec2 = new FakeEc2({
    DescribeSubnets: ({ SubnetIds, Filters = [] }: DescribeSubnetsCommandInput) => {
      const vpc = Filters.find(({ Name }) => Name === "vpc-id")?.Values?.[0];
      return {
        Subnets: subnets.filter(({ SubnetId, VpcId }) =>
          SubnetIds ? SubnetIds.includes(SubnetId) : VpcId === vpc,
        ),
      };
    },
    DescribeVpcs: () => ({ Vpcs: [{ VpcId: "vpc-1" }] }),
    DescribeRouteTables: () => ({
      RouteTables: [
        { Associations: [{ Main: true }], Routes: [internet] },
        { Associations: [{ SubnetId: "subnet-b" }], Routes: routes },
      ],
    }),
  });
  const metadata: InstanceMetadata = {
    get: async (path) => (path === "mac" ? "02:00" : "subnet-a"),
  };
  const place = await findPlace(ec2, options, metadata);
  return place.subnets.map(({ subnetId, zone, isPublic }) =>
    [subnetId, zone, isPublic ? "public" : "private"].join(" "),
  );
}

const [a, b, c] = [
  "subnet-a us-east-1a public",
  "subnet-b us-east-1b private",
  "subnet-c us-east-1c public",
];

describe("findPlace()", () => {
  it("takes a subnet as public whose IPv4 goes to an internet gateway", async () => {
    const isPublic = async (...routes: readonly Route[]): Promise<boolean> => {
      const [first = ""] = await found({ subnetID: "subnet-b" }, some, routes);
      return first.endsWith(" public");
    };
    const nat: Route = { DestinationCidrBlock: "0.0.0.0/0", NatGatewayId: "nat-1" };
    const six: Route = { DestinationIpv6CidrBlock: "::/0", GatewayId: "igw-1", State: "active" };
    const some32: Route = { ...internet, DestinationCidrBlock: "192.0.2.1/32" };
    assert.equal(await isPublic(six, internet), true);
    assert.equal(await isPublic(nat, six), false);
    assert.equal(await isPublic(nat, some32), false);
    assert.equal(await isPublic({ ...internet, State: "blackhole" }), false);
  });

  it("takes the subnets that are named, in their order, once each", async () => {
    const ids = ["subnet-c", "subnet-a", "subnet-c"];
    assert.deepEqual(await found({ subnetIDs: ids }), [c, a]);
    assert.deepEqual(await found({ subnetID: "subnet-b" }), [b]);
  });

  it("takes this machine's without any name", async () => {
    assert.deepEqual(await found({}), [a]);
    assert.deepEqual(await found({ subnetIDs: [] }), [a]);
  });

  it("takes the marked subnets of a VPC, those with the most free addresses first, or its only one", async () => {
    assert.deepEqual(await found({ vpcID: "vpc-1" }), [c, b]);
    assert.deepEqual(await found({ vpcID: "default" }), [c, b]);
    assert.deepEqual(await found({ vpcID: "vpc-1" }, some.slice(0, 1)), [a]);
  });

  it("reads all pages of the VPC's subnets and route tables", async () => {
    const pages = (...all: readonly object[]) => {
      const of = (token: string | undefined) => all[Number(token ?? 0)];
      const next = (token: string | undefined) => Number(token ?? 0) + 1;
      return (token: string | undefined) => ({
        ...of(token),
        NextToken: next(token) < all.length ? String(next(token)) : "",
      });
    };
    const subnets = pages({ Subnets: some.slice(0, 2) }, {}, { Subnets: some.slice(2, 3) });
    const tables = pages(
      { RouteTables: [{ Associations: [{ SubnetId: "subnet-b" }] }] },
      { RouteTables: [{ Associations: [{ Main: true }], Routes: [internet] }] },
    );
    const asked: unknown[] = [];
    const ec2 = new FakeEc2({
      DescribeSubnets: (input: DescribeSubnetsCommandInput) => {
        asked.push(input.MaxResults);
        return subnets(input.NextToken);
      },
      DescribeRouteTables: (input: DescribeRouteTablesCommandInput) => {
        asked.push(input.MaxResults);
        return tables(input.NextToken);
      },
    });
    const place = await findPlace(ec2, { vpcID: "vpc-1" }, { get: async () => undefined });
    const found = place.subnets.map(({ subnetId, isPublic }) => [subnetId, isPublic]);
    assert.deepEqual(found, [
      ["subnet-c", true],
      ["subnet-b", false],
    ]);
    assert.deepEqual(asked, [1000, 1000, 1000, 100, 100]);
  });

  it("refuses what is not clear, or in several VPCs", async () => {
    const two = [subnet("subnet-1", "us-east-1a", 1), subnet("subnet-2", "us-east-1b", 1)];
    await assert.rejects(found({ vpcID: "vpc-1" }, two), { remedy: /subnet-1, subnet-2, or tag/ });
    await assert.rejects(found({ subnetID: "subnet-a", subnetIDs: ["subnet-b"] }), /has both/);
    const apart = { subnetIDs: ["subnet-a", "subnet-x"] };
    await assert.rejects(found(apart), { code: "CLOUD_INVALID_REQUEST" });
    await assert.rejects(found({ subnetIDs: ["subnet-a"], vpcID: "vpc-2" }), /not in vpc-2/);
    await assert.rejects(found({ subnetIDs: ["subnet-9"] }), { code: "CLOUD_NOT_FOUND" });
  });
});

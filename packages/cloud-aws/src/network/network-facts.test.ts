import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ManualClock } from "@kip/testing";
import { fakeCloud } from "../testing/fake-ec2.ts";

describe("networkFacts()", () => {
  it("has pods keep their address to private ranges, the VPC's own and the extra ones", async () => {
    const associated = { State: "associated" } as const;
    const answers = {
      DescribeVpcs: () => ({
        Vpcs: [
          {
            CidrBlock: "10.0.0.0/16",
            CidrBlockAssociationSet: [
              { CidrBlock: "198.19.0.0/16", CidrBlockState: associated },
              { CidrBlock: "198.51.100.0/24", CidrBlockState: { State: "disassociated" } },
            ],
          },
        ],
      }),
    };
    const extraCIDRs = ["203.0.113.0/24"];
    const { cloud } = fakeCloud(new ManualClock(), answers, { extraCIDRs });
    const { directRanges } = await cloud.networkFacts();
    assert.deepEqual(directRanges, [
      "10.0.0.0/8",
      "172.16.0.0/12",
      "192.168.0.0/16",
      "100.64.0.0/10",
      "169.254.0.0/16",
      "::/0",
      "10.0.0.0/16",
      "198.19.0.0/16",
      "203.0.113.0/24",
    ]);
  });

  it("asks for a set of DHCP options once, as no one can change one, and for another of the VPC", async () => {
    let id = "dopt-1";
    const asked: string[] = [];
    const { cloud } = fakeCloud(new ManualClock(), {
      DescribeVpcs: () => ({ Vpcs: [{ CidrBlock: "10.0.0.0/16", DhcpOptionsId: id }] }),
      DescribeDhcpOptions: ({ DhcpOptionsIds: [wanted = ""] = [] }) => {
        asked.push(wanted);
        const Value = `${wanted}.example`;
        return {
          DhcpOptions: [{ DhcpConfigurations: [{ Key: "domain-name", Values: [{ Value }] }] }],
        };
      },
    });
    const domains = async () => (await cloud.networkFacts()).searchDomains;
    assert.deepEqual([await domains(), await domains()], [["dopt-1.example"], ["dopt-1.example"]]);
    id = "dopt-2";
    assert.deepEqual([await domains(), asked], [["dopt-2.example"], ["dopt-1", "dopt-2"]]);
  });
});

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
});

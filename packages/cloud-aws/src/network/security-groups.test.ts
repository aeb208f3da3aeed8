import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { IpPermission } from "@aws-sdk/client-ec2";
import { silentLogger } from "@kip/base";
import { ManualClock } from "@kip/testing";
import {
  awsError,
  describedInstance,
  FakeEc2,
  fakeCloud,
  launchRequest,
} from "../testing/fake-ec2.ts";
import { SecurityGroups } from "./security-groups.ts";

/** How EC2 writes ranges that the test writes differently. */
const forms: Readonly<Record<string, string>> = {
  "10.9.8.7/16": "10.9.0.0/16",
  "2001:DB8::/32": "2001:db8::/32",
};

interface Change {
  readonly IpPermissions?: readonly IpPermission[] | undefined;
}

function rangesIn({ IpPermissions = [] }: Change): readonly string[] {
  return IpPermissions.flatMap(({ IpRanges = [], Ipv6Ranges = [] }) => [
    ...IpRanges.flatMap(({ CidrIp }) => CidrIp ?? []),
    ...Ipv6Ranges.flatMap(({ CidrIpv6 }) => CidrIpv6 ?? []),
  ]).map((cidr) => forms[cidr] ?? cidr);
}

/** A group that refuses a whole change because of one rule, like EC2. */
class Group {
  readonly rules = new Set<string>();
  /** Maximum number of rules of a group. */
  mostRules = 60;
  /** Rules for all traffic from sources other than ranges. */
  others: IpPermission = {};
  /** Rules of other protocols, which EC2 lists before those for all traffic. */
  first: readonly IpPermission[] = [];
  readonly ec2 = new FakeEc2({
    DescribeSecurityGroups: () => ({
      SecurityGroups: [{ GroupId: "sg-1", IpPermissions: [...this.first, this.#shown] }],
    }),
    AuthorizeSecurityGroupIngress: (change) => {
      this.atChange();
      if (rangesIn(change).some((range) => this.rules.has(range)))
        throw awsError("InvalidPermission.Duplicate");
      if (this.rules.size + rangesIn(change).length > this.mostRules)
        throw awsError("RulesPerSecurityGroupLimitExceeded");
      for (const range of rangesIn(change)) this.rules.add(range);
    },
    RevokeSecurityGroupIngress: (change) => {
      this.atChange();
      if (rangesIn(change).some((range) => !this.rules.has(range)))
        throw awsError("InvalidPermission.NotFound");
      for (const { UserIdGroupPairs, PrefixListIds, IpProtocol } of change.IpPermissions ?? [])
        if (UserIdGroupPairs || PrefixListIds) this.others = {};
        else if (IpProtocol !== "-1") this.first = [];
      for (const range of rangesIn(change)) this.rules.delete(range);
    },
  });
  /** Called before a change, to act as another process. */
  atChange = (): void => {};

  get #shown(): IpPermission {
    const [v4, v6] = [false, true].map((isV6) =>
      [...this.rules].filter((range) => range.includes(":") === isV6),
    );
    return {
      ...this.others,
      IpProtocol: "-1",
      IpRanges: (v4 ?? []).map((CidrIp) => ({ CidrIp })),
      Ipv6Ranges: (v6 ?? []).map((CidrIpv6) => ({ CidrIpv6 })),
    };
  }

  /** The rules after kip has started. */
  async start(...extraCIDRs: readonly string[]): Promise<readonly string[]> {
    const groups = new SecurityGroups({
      ec2: this.ec2,
      owner: "me",
      vpcId: "vpc-1",
      extraCIDRs,
      extraGroups: [],
      vpcCidrs: async () => ["10.0.0.0/16"],
      logger: silentLogger,
    });
    await groups.get();
    return [...this.rules].sort();
  }
}

describe("SecurityGroups", () => {
  it("keeps ranges that are not written as EC2 shows them", async () => {
    const group = new Group();
    const extra = ["10.9.8.7/16", "2001:DB8::/32", "10.9.0.0/16"];
    const wanted = ["10.0.0.0/16", "10.9.0.0/16", "2001:db8::/32"];
    for (const time of ["first", "second", "third"])
      assert.deepEqual(await group.start(...extra), wanted, time);
    const changes = group.ec2.actions.filter((action) => action.endsWith("Ingress"));
    assert.deepEqual(changes, ["AuthorizeSecurityGroupIngress"]);
    assert.deepEqual(await group.start(), ["10.0.0.0/16"]);
  });

  it("replaces more ranges than the group has room for besides those that go", async () => {
    const group = new Group();
    group.mostRules = 4;
    const [old, other] = ["192.0.2", "198.51.100"].map((net) =>
      ["1", "2", "3"].map((host) => `${net}.${host}/32`),
    );
    await group.start(...(old ?? []));
    assert.deepEqual(await group.start(...(other ?? [])), ["10.0.0.0/16", ...(other ?? [])]);
    await assert.rejects(group.start(...(old ?? []), ...(other ?? [])), { code: "CLOUD_QUOTA" });
  });

  it("reads all rules of the group, and shuts out those of single ports", async () => {
    const group = new Group();
    await group.start();
    group.first = [{ IpProtocol: "tcp", FromPort: 22, ToPort: 22, IpRanges: [] }];
    assert.deepEqual(await group.start(), ["10.0.0.0/16"]);
    assert.deepEqual(group.first, []);
    const changes = group.ec2.actions.filter((action) => action.endsWith("Ingress"));
    assert.deepEqual(changes, ["AuthorizeSecurityGroupIngress", "RevokeSecurityGroupIngress"]);
  });

  it("shuts out other groups and prefix lists, too, that somebody has let in", async () => {
    for (const others of [
      { UserIdGroupPairs: [{ GroupId: "sg-9" }] },
      { PrefixListIds: [{ PrefixListId: "pl-9" }] },
    ]) {
      const group = new Group();
      await group.start();
      group.others = others;
      assert.deepEqual(await group.start(), ["10.0.0.0/16"]);
      assert.deepEqual(group.others, {}, JSON.stringify(others));
    }
  });

  it("makes the other changes where another process has made one", async () => {
    const group = new Group();
    group.atChange = () => group.rules.add("10.9.0.0/16");
    assert.deepEqual(await group.start("10.9.0.0/16", "192.0.2.0/24"), [
      "10.0.0.0/16",
      "10.9.0.0/16",
      "192.0.2.0/24",
    ]);
    group.atChange = () => group.rules.delete("192.0.2.0/24");
    assert.deepEqual(await group.start(), ["10.0.0.0/16"]);
  });

  it("is made again by the launch after one that finds it deleted", async () => {
    let isThere = true;
    const { cloud, outcome } = fakeCloud(new ManualClock(), {
      DescribeSecurityGroups: () => ({ SecurityGroups: isThere ? [{ GroupId: "sg-1" }] : [] }),
      CreateSecurityGroup: () => ({ GroupId: "sg-2" }),
      RunInstances: ({ NetworkInterfaces }) => {
        if (NetworkInterfaces?.[0]?.Groups?.[0] === "sg-1" && !isThere)
          throw awsError("InvalidGroup.NotFound");
        return { Instances: [describedInstance("i-1", "pending")] };
      },
    });
    const launch = async () => (await outcome(cloud.launch(launchRequest))).status;
    assert.equal(await launch(), "fulfilled");
    isThere = false;
    assert.deepEqual([await launch(), await launch()], ["rejected", "fulfilled"]);
  });
});

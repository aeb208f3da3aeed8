// IPv6 addresses, with the real SDK against moto, in a subnet with an IPv6 range and in one without.
import assert from "node:assert/strict";
import { BlockList } from "node:net";
import { after, it } from "node:test";
import { whyNoMoto } from "../src/emulator/moto-server.ts";
import { childOf, itemsOf, parseXml, textOf, type XmlElement } from "../src/emulator/xml.ts";
import { launchRequest } from "./support/launch-request.ts";
import { openTestEc2, type TestEc2 } from "./support/test-ec2.ts";

const skip = await whyNoMoto();
if (skip === undefined) await describeIpv6();
else it("EC2: IPv6", { skip }, () => {});

async function describeIpv6(): Promise<void> {
  const ec2 = await openTestEc2();
  after(() => ec2[Symbol.asyncDispose]());
  const { dual, range, plain } = await dualStackSubnets(ec2);

  it("EC2: gives machine and pod an address of IPv6 each where the subnet has a range", async () => {
    await using driver = await ec2.open({ subnetID: dual, ipv6: true });
    const { id, ipv6, managementIp, podIp } = await driver.launch(launchRequest(ec2, "dual"));
    assert.ok(ipv6, "the answer to the launch has none");
    const addresses = [ipv6.managementIp, ipv6.podIp];
    assert.equal(new Set(addresses).size, 2);
    const inRange = new BlockList();
    inRange.addSubnet(range.replace(/\/56$/, ""), 56, "ipv6");
    for (const address of addresses)
      assert.ok(inRange.check(address, "ipv6"), `${address} is not in ${range}`);
    assert.equal(ipv6.gateway, undefined, "the network advertises its router");
    // Every process sees the same address, in whatever order EC2 lists them.
    await using other = await ec2.open({ subnetID: dual, ipv6: true });
    const seen = await other.waitForRunning(id);
    assert.deepEqual([seen.ipv6, seen.managementIp, seen.podIp], [ipv6, managementIp, podIp]);
    assert.deepEqual((await other.list())[0]?.ipv6, ipv6);
    await driver.terminate(id);
  });

  it("EC2: lets the VPC's range of IPv6 in, and tells pods of it", async () => {
    await using driver = await ec2.open({
      owner: "dual",
      subnetID: dual,
      ipv6: true,
      extraCIDRs: ["2001:db8:7::/48"],
    });
    const { id } = await driver.launch(launchRequest(ec2, "rules"));
    const { body } = await ec2.proxy.ask("DescribeSecurityGroups", {
      "Filter.1.Name": "group-name",
      "Filter.1.Value.1": "kip-dual-cellsecuritygroup",
    });
    const [group] = itemsOf(parseXml(body), "securityGroupInfo");
    const allowed = itemsOf(group, "ipPermissions")
      .flatMap((each) => itemsOf(each, "ipv6Ranges"))
      .map((each) => textOf(each, "cidrIpv6"));
    assert.deepEqual(allowed.sort(), ["2001:db8:7::/48", range].sort());
    const { cidrs, directRanges } = await driver.networkFacts();
    assert.ok(cidrs.includes(range), cidrs.join());
    assert.ok(directRanges?.includes("::/0"), "addresses of IPv6 are not translated");
    await driver.terminate(id);
  });

  it("EC2: gives none in a subnet of IPv4 alone, nor without the option", async () => {
    for (const changes of [{ subnetID: plain, ipv6: true }, { subnetID: dual }]) {
      await using driver = await ec2.open(changes);
      const { id, ipv6 } = await driver.launch(launchRequest(ec2, JSON.stringify(changes)));
      assert.equal(ipv6, undefined);
      assert.equal((await driver.describe(id))?.ipv6, undefined);
      await driver.terminate(id);
    }
  });
}

/** Two subnets of a VPC with an IPv6 range. One of them has a part of the range. */
async function dualStackSubnets({ proxy }: TestEc2) {
  const ask = async (action: string, parameters: Readonly<Record<string, string>>) => {
    const { status, body } = await proxy.ask(action, parameters);
    assert.equal(status, 200, `${action}: ${body}`);
    return parseXml(body);
  };
  const vpc = textOf(
    childOf(
      await ask("CreateVpc", { CidrBlock: "10.20.0.0/16", AmazonProvidedIpv6CidrBlock: "true" }),
      "vpc",
    ),
    "vpcId",
  );
  const [described] = itemsOf(await ask("DescribeVpcs", { "VpcId.1": vpc }), "vpcSet");
  const block = textOf(itemsOf(described, "ipv6CidrBlockAssociationSet")[0], "ipv6CidrBlock");
  const range = block.replace(/\b0+(?=[0-9a-f])/g, ""); // moto writes zeros that EC2 omits
  const subnetOf = (answer: XmlElement) => textOf(childOf(answer, "subnet"), "subnetId");
  const dual = subnetOf(
    await ask("CreateSubnet", {
      VpcId: vpc,
      CidrBlock: "10.20.1.0/24",
      Ipv6CidrBlock: range.replace(/\/56$/, "/64"),
    }),
  );
  const plain = subnetOf(await ask("CreateSubnet", { VpcId: vpc, CidrBlock: "10.20.2.0/24" }));
  return { dual, plain, range };
}

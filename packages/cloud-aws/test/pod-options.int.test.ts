// What pods need from AWS besides a machine, with the real SDK against moto: profiles, groups, tenancy, prices, registries.
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, it } from "node:test";
import { givesRegistryLogIns, type LaunchRequest } from "@kip/cloud";
import { iamPolicy } from "../src/policy/index.ts";
import { launchRequest } from "./support/launch-request.ts";
import { whyNoMoto } from "../src/emulator/moto-server.ts";
import { recordTargets } from "./support/recorded-targets.ts";
import { openTestEc2, type TestEc2 } from "./support/test-ec2.ts";
import { itemsOf, parseXml, textOf, type XmlElement } from "../src/emulator/xml.ts";

const skip = await whyNoMoto();
if (skip === undefined) await describePodOptions();
else it("EC2: what pods ask for", { skip }, () => {});

async function describePodOptions(): Promise<void> {
  const ec2 = await openTestEc2();
  after(() => ec2[Symbol.asyncDispose]());
  const request = (token: string, more: Partial<LaunchRequest>): LaunchRequest =>
    launchRequest(ec2, token, more);

  it("EC2: gives an instance its profile, its groups and hardware of its own by the launch", async () => {
    await using driver = await ec2.open({ extraSecurityGroups: [await createGroup(ec2, "all")] });
    const arn = await createProfile(ec2, "web");
    const group = await createGroup(ec2, "web");
    for (const instanceProfile of ["web", arn]) {
      const { id, launchType } = await driver.launch(
        request(`web-${instanceProfile.length}`, {
          instanceProfile,
          securityGroups: [group],
          launchType: "dedicated",
        }),
      );
      const item = await described(ec2, id);
      assert.equal(textOf(child(item, "iamInstanceProfile"), "arn"), arn);
      const [nic] = itemsOf(item, "networkInterfaceSet");
      const groups = itemsOf(nic, "groupSet").map((each) => textOf(each, "groupName"));
      assert.deepEqual(groups.sort(), ["all", "kip-tests-cellsecuritygroup", "web"]);
      assert.equal(launchType, "dedicated");
    }
    const plain = await driver.launch(request("plain", {}));
    const item = await described(ec2, plain.id);
    assert.equal(textOf(child(item, "iamInstanceProfile"), "arn"), "");
    assert.equal(plain.launchType, "on-demand");
  });

  it("EC2: starts instances in the zones of several subnets", async () => {
    const all = itemsOf(parseXml((await ec2.proxy.ask("DescribeSubnets")).body), "subnetSet");
    const zoneOf = (item: XmlElement | undefined) => textOf(item, "availabilityZone");
    const [first, second] = [all[0], all.find((each) => zoneOf(each) !== zoneOf(all[0]))];
    const subnetIDs = [second, first].map((item) => textOf(item, "subnetId"));
    await using driver = await ec2.open({ subnetID: undefined, subnetIDs });
    assert.deepEqual([driver.zone, driver.zones], [zoneOf(second), [second, first].map(zoneOf)]);
    for (const [index, zone] of [undefined, zoneOf(first)].entries()) {
      const { id } = await driver.launch(request(`zone-${index}`, { zone }));
      assert.equal(textOf(await described(ec2, id), "subnetId"), subnetIDs[index]);
    }
  });

  const range = "10.77.0.0/16";
  const targets = async () =>
    itemsOf(parseXml((await ec2.proxy.ask("DescribeRouteTables")).body), "routeTableSet")
      .flatMap((table) => itemsOf(table, "routeSet"))
      .filter((route) => textOf(route, "destinationCidrBlock") === range)
      .map((route) => textOf(route, "instanceId"));

  it("EC2: leads ranges to an instance, and no longer when it ends", async () => {
    await using driver = await ec2.open({ sourceDestCheck: true, podRoutes: true });
    assert.ok(driver.launchExtras?.includes("routes"));
    const { id } = await driver.launch(request("router", { routes: [range] }));
    await driver.waitForRunning(id);
    assert.deepEqual(await targets(), [id]);
    assert.equal(textOf(await described(ec2, id), "sourceDestCheck"), "false");
    await driver.terminate(id);
    assert.deepEqual(await targets(), []);
    const allowed = iamPolicy({ podRoutes: true }).Statement.flatMap(({ Action }) => Action);
    for (const action of new Set(ec2.proxy.actions))
      assert.ok(allowed.includes(`ec2:${action}`), action);
  });

  it("EC2: leads the range of an instance that it took to the next one, also after a start of kip", async () => {
    const launch = async (driver: Awaited<ReturnType<TestEc2["open"]>>, token: string) => {
      const { id } = await driver.launch(request(token, { routes: [range] }));
      await driver.waitForRunning(id);
      assert.deepEqual(await targets(), [id]);
      return id;
    };
    const options = { sourceDestCheck: true, podRoutes: true };
    const first = await ec2.open(options);
    await ec2.proxy.kill(await launch(first, "router-1"));
    await first[Symbol.asyncDispose]();
    await using driver = await ec2.open(options);
    const second = await launch(driver, "router-2");
    const isGone = Promise.withResolvers<void>();
    driver.onTerminated(({ id }) => {
      if (id === second) isGone.resolve();
    });
    await ec2.proxy.kill(second);
    await isGone.promise;
    const third = await launch(driver, "router-3");
    await driver.terminate(third);
    assert.deepEqual(await targets(), []);
  });

  it("EC2: starts in a region that only the price file has", async () => {
    const folder = await mkdtemp(path.join(tmpdir(), "kip-aws-prices-"));
    after(() => rm(folder, { recursive: true }));
    const priceFile = path.join(folder, "prices.json");
    await writeFile(priceFile, JSON.stringify({ "ap-east-2": { "m5.large": { price: 0.5 } } }));
    await using driver = await ec2.open({ region: "ap-east-2", priceFile });
    const [offer, ...others] = await driver.instanceTypes();
    assert.deepEqual(offer?.pricePerHour, { "on-demand": 0.5, dedicated: 0.5 });
    assert.deepEqual([driver.region, others], ["ap-east-2", []]);
    assert.equal((await driver.launch(request("far", {}))).instanceType, "m5.large");
  });

  it("ECR: gives log-ins for its registries alone, by an action that the policy has", async () => {
    await using registry = await recordTargets(ec2.motoURL);
    await using driver = await ec2.open({ registryEndpointURL: registry.url });
    assert.ok(givesRegistryLogIns(driver));
    const host = "123456789012.dkr.ecr.eu-west-1.amazonaws.com";
    const logIn = await driver.registryLogIn(host);
    assert.equal(logIn?.username, "AWS");
    assert.match(logIn?.password.reveal() ?? "", /auth-token$/);
    assert.ok(Number.isFinite(Date.parse(logIn?.expiresAt ?? "")));
    assert.match(registry.calls[0]?.authorization ?? "", /\/eu-west-1\/ecr\//);
    for (const other of ["docker.io", "123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn"])
      assert.equal(await driver.registryLogIn(other), undefined);
    const allowed = iamPolicy().Statement.flatMap(({ Action }) => Action);
    assert.equal(registry.calls.length, 1);
    for (const { action } of registry.calls) assert.ok(allowed.includes(`ecr:${action}`), action);
    registry.refusal = { status: 400, code: "AccessDeniedException" };
    await assert.rejects(driver.registryLogIn(host), {
      code: "CLOUD_AUTH",
      remedy: /ecr:GetAuthorizationToken/,
    });
  });
}

function child(parent: XmlElement | undefined, name: string): XmlElement | undefined {
  return parent?.children.find((each) => each.name === name);
}

async function described({ proxy }: TestEc2, id: string): Promise<XmlElement | undefined> {
  const { body } = await proxy.ask("DescribeInstances", { "InstanceId.1": id });
  return itemsOf(itemsOf(parseXml(body), "reservationSet")[0], "instancesSet")[0];
}

async function createGroup({ proxy, subnetId }: TestEc2, name: string): Promise<string> {
  const { body } = await proxy.ask("DescribeSubnets", { "SubnetId.1": subnetId });
  const vpc = textOf(itemsOf(parseXml(body), "subnetSet")[0], "vpcId");
  const made = await proxy.ask("CreateSecurityGroup", {
    GroupName: name,
    GroupDescription: name,
    VpcId: vpc,
  });
  return textOf(parseXml(made.body), "groupId");
}

/** @returns its ARN */
async function createProfile({ motoURL }: TestEc2, name: string): Promise<string> {
  const answer = await fetch(motoURL, {
    method: "POST",
    headers: {
      authorization:
        "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/iam/aws4_request, SignedHeaders=host, Signature=0",
      "content-type": "application/x-www-form-urlencoded",
    },
    body: new URLSearchParams({
      Action: "CreateInstanceProfile",
      Version: "2010-05-08",
      InstanceProfileName: name,
    }).toString(),
  });
  const result = child(parseXml(await answer.text()), "CreateInstanceProfileResult");
  return textOf(child(result, "InstanceProfile"), "Arn");
}

// Dedicated hosts, with the real SDK against moto behind the proxy, which adds their capacity, instances and states.
import assert from "node:assert/strict";
import { after, afterEach, it } from "node:test";
import type { CloudDriver, DedicatedHosts, LaunchRequest } from "@kip/cloud";
import { whyNoMoto } from "../src/emulator/moto-server.ts";
import { itemsOf, parseXml, textOf } from "../src/emulator/xml.ts";
import { iamPolicy } from "../src/policy/index.ts";
import { launchRequest } from "./support/launch-request.ts";
import { openTestEc2 } from "./support/test-ec2.ts";

const skip = await whyNoMoto();
if (skip === undefined) await describeHosts();
else it("EC2: dedicated hosts", { skip }, () => {});

async function describeHosts(): Promise<void> {
  const ec2 = await openTestEc2();
  after(() => ec2[Symbol.asyncDispose]());
  const dedicated = (token: string, more: Partial<LaunchRequest> = {}): LaunchRequest =>
    launchRequest(ec2, token, { launchType: "dedicated", ...more });
  const open = async (owner = "tests") => await ec2.open({ owner, dedicatedHosts: true });
  /** All owners' hosts in moto. */
  const allocated = async () =>
    itemsOf(parseXml((await ec2.proxy.ask("DescribeHosts")).body), "hostSet")
      .filter((each) => textOf(each, "state") === "available")
      .map((each) => textOf(each, "hostId"));
  const calls = (action: string) => ec2.proxy.actions.filter((each) => each === action).length;

  afterEach(async () => {
    ec2.proxy.faults.clear();
    ec2.proxy.hosts.pendingMs = 0;
    ec2.proxy.hosts.kept.clear();
    for (const owner of ["tests", "stranger"]) {
      await using driver = await open(owner);
      for (const { id } of await driver.list()) await end(driver, id);
      await hostsOf(driver).releaseEmpty();
    }
    assert.deepEqual(await allocated(), []);
  });

  it("EC2: launches at one moment share hosts of their type, as many as they need", async () => {
    await using driver = await open();
    ec2.proxy.hosts.pendingMs = 100; // it becomes available a moment after its allocation
    const tokens = ["a", "b", "c"];
    const launched = await Promise.all(tokens.map((token) => driver.launch(dedicated(token))));
    assert.deepEqual(new Set(launched.map(({ launchType }) => launchType)), new Set(["dedicated"]));
    const hosts = await hostsOf(driver).list();
    assert.deepEqual(new Set(hosts.map(({ instanceIds }) => instanceIds.length)), new Set([1, 2]));
    assert.equal(hosts.length, 2);
    for (const { instanceType, zone, owner } of hosts)
      assert.deepEqual([instanceType, zone, owner], ["m5.large", driver.zone, "tests"]);
    await driver.launch(dedicated("other", { instanceType: "m5.xlarge" }));
    assert.equal((await hostsOf(driver).list()).length, 3);
  });

  it("EC2: gives back a host when its last instance has ended, and no host before", async () => {
    await using driver = await open();
    const [first, second] = await Promise.all(
      ["a", "b"].map(async (token) => await driver.launch(dedicated(token))),
    );
    assert.ok(first && second);
    await end(driver, first.id);
    assert.deepEqual(await hostsOf(driver).releaseEmpty(), []);
    // The next launch uses the room that is left.
    const third = await driver.launch(dedicated("c"));
    assert.equal((await hostsOf(driver).list()).length, 1);
    await end(driver, second.id);
    await end(driver, third.id);
    const [given, ...more] = await hostsOf(driver).releaseEmpty();
    assert.deepEqual([given?.refusal, more], [undefined, []]);
    assert.deepEqual(await hostsOf(driver).list(), []);
  });

  it("EC2: uses, lists and gives back no host of others, whatever tag they have", async () => {
    await using stranger = await open("stranger");
    const { id } = await stranger.launch(dedicated("theirs"));
    await end(stranger, id);
    await using driver = await open();
    const foreign = await allocateUntagged(driver.zone);
    await driver.launch(dedicated("mine"));
    const [own, ...others] = await hostsOf(driver).list();
    assert.deepEqual([own?.owner, others], ["tests", []]);
    assert.deepEqual(await hostsOf(driver).releaseEmpty(), []);
    assert.equal((await allocated()).length, 3);
    await ec2.proxy.ask("ReleaseHosts", { "HostId.1": foreign });
  });

  it("EC2: allocates nothing for a launch that is repeated, nor for other launch types", async () => {
    await using driver = await open();
    const before = calls("DescribeHosts");
    await driver.launch(launchRequest(ec2, "plain"));
    assert.equal(calls("DescribeHosts"), before, "a plain pod asks for no hosts");
    ec2.proxy.hosts.capacity = 1;
    try {
      const { id } = await driver.launch(dedicated("again"));
      ec2.proxy.faults.add({ action: "RunInstances", code: "lost" });
      await using other = await open();
      assert.equal((await other.launch(dedicated("again"))).id, id);
      assert.equal((await hostsOf(driver).list()).length, 1);
    } finally {
      ec2.proxy.hosts.capacity = 2;
    }
  });

  it("EC2: goes on to another host when one is full or was given back meanwhile", async () => {
    await using driver = await open();
    await driver.launch(dedicated("a"));
    for (const code of ["InsufficientCapacityOnHost", "InvalidHostID.NotFound"]) {
      ec2.proxy.faults.add({ action: "RunInstances", code });
      const { id } = await driver.launch(dedicated(code));
      const hosts = await hostsOf(driver).list();
      assert.ok(hosts.some(({ instanceIds }) => instanceIds.includes(id)));
    }
    assert.ok((await hostsOf(driver).list()).length >= 2);
  });

  it("EC2: leaves no host behind that it could not use", async () => {
    await using driver = await open();
    ec2.proxy.faults.add({ action: "AllocateHosts", code: "InsufficientHostCapacity" });
    await assert.rejects(driver.launch(dedicated("none")), {
      code: "CLOUD_NO_CAPACITY",
      scope: { instanceType: "m5.large", zone: driver.zone, launchType: "dedicated" },
    });
    ec2.proxy.faults.add({ action: "AllocateHosts", code: "HostLimitExceeded" });
    await assert.rejects(driver.launch(dedicated("none")), { code: "CLOUD_QUOTA" });
    ec2.proxy.faults.add({ action: "AllocateHosts", code: "lost", calls: 3 });
    await assert.rejects(driver.launch(dedicated("none")), { code: "CLOUD_UNAVAILABLE" });
    // The host of the lost responses is found by its tag, and the retry uses it.
    const before = calls("AllocateHosts");
    await driver.launch(dedicated("none"));
    assert.equal(calls("AllocateHosts"), before);
    await using next = await open();
    for (const { id } of await next.list()) await end(next, id);
    assert.ok((await hostsOf(next).releaseEmpty()).length > 0);
    assert.deepEqual(await hostsOf(next).list(), []);
  });

  it("EC2: says why a host stays that EC2 does not take back yet", async () => {
    await using driver = await open();
    const { id } = await driver.launch(dedicated("mac"));
    await end(driver, id);
    const [host] = await hostsOf(driver).list();
    ec2.proxy.hosts.kept.set(host?.id ?? "", "it was allocated less than 24 hours ago");
    const [release] = await hostsOf(driver).releaseEmpty();
    assert.match(release?.refusal ?? "", /less than 24 hours ago/);
    assert.deepEqual(await hostsOf(driver).list(), [host]);
  });

  it("EC2: calls for hosts what kip iam print allows, and changes none without dedicatedHosts", () => {
    const allowedBy = (dedicatedHosts: boolean) =>
      new Set(iamPolicy({ dedicatedHosts }).Statement.flatMap(({ Action }) => Action));
    const called = new Set(ec2.proxy.actions.map((action) => `ec2:${action}`));
    const forHosts = [...called].filter((action) => /(Hosts|InstanceTypes)$/.test(action)).sort();
    assert.deepEqual(forHosts, [
      "ec2:AllocateHosts",
      "ec2:DescribeHosts",
      "ec2:DescribeInstanceTypes",
      "ec2:ReleaseHosts",
    ]);
    for (const action of forHosts) {
      assert.ok(allowedBy(true).has(action), action);
      // kip cleanup also lists hosts from a time when the option was set.
      const isRead = action === "ec2:DescribeHosts";
      assert.equal(allowedBy(false).has(action), isRead, action);
    }
  });

  /** A person's own host of the same type. */
  async function allocateUntagged(zone: string): Promise<string> {
    const { body } = await ec2.proxy.ask("AllocateHosts", {
      AvailabilityZone: zone,
      InstanceType: "m5.large",
      Quantity: "1",
    });
    return itemsOf(parseXml(body), "hostIdSet")[0]?.text ?? "";
  }
}

function hostsOf({ hosts }: CloudDriver): DedicatedHosts {
  assert.ok(hosts, "the driver has no hosts");
  return hosts;
}

async function end(driver: CloudDriver, id: string): Promise<void> {
  await driver.terminate(id);
  await driver.waitForTerminated(id);
}

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Instance } from "@kip/cloud";
import { ManualClock } from "@kip/testing";
import {
  awsError,
  describedInstance,
  fakeCloud,
  launchRequest,
  reservations,
  testSubnet,
} from "../testing/fake-ec2.ts";

const isFirst = (clientToken = ""): boolean => clientToken.endsWith("-0");

const idOf = (outcome: PromiseSettledResult<Instance>): unknown =>
  outcome.status === "fulfilled" ? outcome.value.id : outcome.reason;

describe("Launcher", () => {
  it("keeps the pair of addresses of IPv6 that an instance had first", async () => {
    let state = "pending";
    let ipv6: readonly string[] = [];
    const clock = new ManualClock();
    const { cloud, outcome } = fakeCloud(clock, {
      DescribeInstances: () => reservations(describedInstance("i-1", state, { ipv6 })),
      RunInstances: () => ({ Instances: [describedInstance("i-1", state, { ipv6 })] }),
    });
    const launched = await outcome(cloud.launch(launchRequest));
    assert.equal(launched.status === "fulfilled" && launched.value.ipv6, undefined);
    state = "running";
    void clock.sleep(10_000).then(() => (ipv6 = ["2001:db8::b", "2001:db8::a"]));
    const running = await outcome(cloud.waitForRunning("i-1"));
    const pair = { managementIp: "2001:db8::a", podIp: "2001:db8::b" };
    assert.deepEqual(running.status === "fulfilled" && running.value.ipv6, pair);
    ipv6 = ["2001:db8::1", ...ipv6];
    assert.deepEqual((await cloud.list())[0]?.ipv6, pair);
  });

  it("starts the next instance of a Cell whose first one EC2 says has ended", async () => {
    const clock = new ManualClock();
    const { cloud, outcome } = fakeCloud(clock, {
      RunInstances: ({ ClientToken }) => {
        if (isFirst(ClientToken)) throw awsError("IdempotentInstanceTerminated");
        return { Instances: [describedInstance("i-2", "pending")] };
      },
    });
    assert.equal(idOf(await outcome(cloud.launch(launchRequest))), "i-2");
  });

  it("starts no second instance of a Cell while the first one is shutting down", async () => {
    let state = "shutting-down";
    let first = "";
    const startedWhile: string[] = [];
    const clock = new ManualClock();
    const { cloud, outcome } = fakeCloud(clock, {
      DescribeInstances: () =>
        reservations(describedInstance("i-1", state, { clientToken: first })),
      RunInstances: ({ ClientToken = "" }) => {
        if (isFirst(ClientToken)) {
          first = ClientToken;
          throw awsError("IdempotentParameterMismatch");
        }
        startedWhile.push(state);
        return { Instances: [describedInstance("i-2", "pending")] };
      },
    });
    const launched = outcome(cloud.launch(launchRequest));
    void clock.sleep(20_000).then(() => (state = "terminated"));
    assert.equal(idOf(await launched), "i-2");
    assert.deepEqual(startedWhile, ["terminated"]);
  });

  it("fails, to be asked again, while an instance does not end", async () => {
    let first = "";
    const clock = new ManualClock();
    const { cloud, outcome } = fakeCloud(clock, {
      DescribeInstances: () =>
        reservations(describedInstance("i-1", "shutting-down", { clientToken: first })),
      RunInstances: ({ ClientToken = "" }) => {
        first = ClientToken;
        throw awsError("IdempotentParameterMismatch");
      },
    });
    assert.match(String(idOf(await outcome(cloud.launch(launchRequest)))), /still ending/);
    assert.ok(isFirst(first), "no other client token was used");
  });

  it("returns the instance whose answer was lost when EC2 shows it at last", async () => {
    let first = "";
    let shown = reservations();
    const clock = new ManualClock();
    const { cloud, outcome } = fakeCloud(clock, {
      DescribeInstances: () => shown,
      RunInstances: ({ ClientToken = "" }) => {
        first ||= ClientToken;
        throw awsError("IdempotentParameterMismatch");
      },
    });
    void clock.sleep(10_000).then(() => {
      shown = reservations(describedInstance("i-1", "pending", { clientToken: first }));
    });
    assert.equal(idOf(await outcome(cloud.launch(launchRequest))), "i-1");
  });

  it("starts the next instance of a Cell where EC2 answers with the first one, which has ended", async () => {
    const { cloud, outcome } = fakeCloud(new ManualClock(), {
      DescribeInstances: () => reservations(),
      RunInstances: ({ ClientToken }) => ({
        Instances: [
          isFirst(ClientToken)
            ? describedInstance("i-1", "terminated")
            : describedInstance("i-2", "pending"),
        ],
      }),
    });
    assert.equal(idOf(await outcome(cloud.launch(launchRequest))), "i-2");
  });

  describe("where EC2 keeps the client token of a launch that it has refused", () => {
    /** Refuses launches with these codes, one after the other, and accepts later ones. */
    function keepingTokens(...codes: string[]) {
      const clock = new ManualClock();
      const kept = new Set<string>();
      const subnets = [testSubnet("a-1", { freeAddresses: 20 }), testSubnet("a-2")];
      const fake = fakeCloud(
        clock,
        {
          DescribeInstances: () => reservations(),
          RunInstances: ({ ClientToken = "", NetworkInterfaces = [] }) => {
            if (kept.has(ClientToken)) throw awsError("IdempotentParameterMismatch");
            kept.add(ClientToken);
            const code = codes.shift();
            if (code !== undefined) throw awsError(code);
            return {
              Instances: [describedInstance(`i-${NetworkInterfaces[0]?.SubnetId}`, "pending")],
            };
          },
        },
        { subnets },
      );
      const launch = async () => await fake.outcome(fake.cloud.launch(launchRequest));
      return { ...fake, clock, launch };
    }

    it("starts it at once when it is repeated", async () => {
      const times = 60;
      const refusals = Array<string>(times).fill("VcpuLimitExceeded");
      const { launch, clock, actions } = keepingTokens(...refusals);
      for (let index = 0; index < times; index++) assert.equal((await launch()).status, "rejected");
      const began = clock.monotonic();
      actions.splice(0);
      assert.equal((await launch()).status, "fulfilled");
      assert.ok(clock.monotonic() - began <= 2000, `${clock.monotonic() - began} ms`);
      const ofInstances = actions.filter((each) => each.endsWith("Instances"));
      assert.deepEqual(ofInstances, ["RunInstances", "RunInstances"]);
    });

    it("goes on to the zone's next subnet at once", async () => {
      const { launch, clock } = keepingTokens("InsufficientFreeAddressesInSubnet");
      const began = clock.monotonic();
      assert.equal(idOf(await launch()), "i-a-1");
      assert.ok(clock.monotonic() - began <= 2000, `${clock.monotonic() - began} ms`);
    });

    it("looks for the instance where an answer was lost besides", async () => {
      const { launch, actions } = keepingTokens("InternalError", "VcpuLimitExceeded");
      assert.equal((await launch()).status, "rejected");
      actions.splice(0);
      assert.equal((await launch()).status, "rejected");
      assert.ok(actions.includes("DescribeInstances"));
      assert.equal((await launch()).status, "fulfilled");
    });
  });

  it("waits for one lag alone where EC2 shows none of a Cell's client tokens", async () => {
    const clock = new ManualClock();
    const { cloud, outcome } = fakeCloud(clock, {
      DescribeInstances: () => reservations(),
      RunInstances: ({ ClientToken = "" }) => {
        if (!ClientToken.endsWith("-5")) throw awsError("IdempotentParameterMismatch");
        return { Instances: [describedInstance("i-6", "pending")] };
      },
    });
    const began = clock.monotonic();
    assert.equal(idOf(await outcome(cloud.launch(launchRequest))), "i-6");
    assert.ok(clock.monotonic() - began < 90_000, `${clock.monotonic() - began} ms`);
  });

  /** Launches in two zones, one of which has two subnets. Some subnets are full. */
  function inZones(full: readonly string[] = []) {
    const clock = new ManualClock();
    const asked: string[] = [];
    let freeInA2 = 5;
    const zone = "us-east-1b";
    const subnets = [
      testSubnet("a-1", { freeAddresses: 20 }),
      testSubnet("a-2", { freeAddresses: freeInA2 }),
      testSubnet("b-1", { zone }),
    ];
    const fake = fakeCloud(
      clock,
      {
        RunInstances: ({ NetworkInterfaces = [], ClientToken = "" }) => {
          const id = NetworkInterfaces[0]?.SubnetId ?? "";
          asked.push(id);
          if (full.includes(id)) throw awsError("InsufficientFreeAddressesInSubnet");
          return { Instances: [describedInstance(`i-${ClientToken}`, "pending")] };
        },
        DescribeSubnets: () => ({
          Subnets: [
            { SubnetId: "a-1", AvailableIpAddressCount: 20 },
            { SubnetId: "a-2", AvailableIpAddressCount: freeInA2 },
          ],
        }),
      },
      { subnets },
    );
    const launch = async (token: string, in_?: string) =>
      await fake.outcome(fake.cloud.launch({ ...launchRequest, token, zone: in_ }));
    return { ...fake, clock, asked, launch, zone, free: (count: number) => (freeInA2 = count) };
  }

  it("starts instances in the subnet of their zone, of several in that with the most free addresses", async () => {
    const { cloud, clock, asked, launch, zone, free, actions } = inZones();
    assert.deepEqual([cloud.zone, cloud.zones], ["us-east-1a", ["us-east-1a", zone]]);
    await launch("1");
    await launch("2", zone);
    free(50);
    await launch("3", "us-east-1a");
    await clock.advance(60_000);
    await launch("4", "us-east-1a");
    await launch("5", "us-east-1a");
    assert.deepEqual(asked, ["a-1", "b-1", "a-1", "a-2", "a-2"]);
    assert.equal(actions.filter((each) => each === "DescribeSubnets").length, 1);
  });

  it("goes on to the zone's next subnet if one is full, and names the zone if all are", async () => {
    const one = inZones(["a-1"]);
    assert.equal((await one.launch("1")).status, "fulfilled");
    assert.deepEqual(one.asked, ["a-1", "a-2"]);
    const both = inZones(["a-1", "a-2"]);
    const refused = await both.launch("1");
    assert.ok(refused.status === "rejected");
    assert.deepEqual(
      [refused.reason.code, refused.reason.scope],
      ["CLOUD_NO_CAPACITY", { zone: "us-east-1a" }],
    );
  });

  it("refuses a zone that has no subnet of the cells", async () => {
    const refused = await inZones().launch("1", "us-east-1f");
    assert.ok(refused.status === "rejected");
    assert.equal(refused.reason.code, "CLOUD_INVALID_REQUEST");
  });

  it("has the image looked up again when EC2 no longer has it", async () => {
    const images = ["ami-1", "ami-2"];
    const { cloud, outcome } = fakeCloud(new ManualClock(), {
      DescribeImages: () => ({ Images: [{ ImageId: images[0], State: "available" }] }),
      RunInstances: ({ ImageId = "" }) => {
        if (ImageId === images[0]) return { Instances: [describedInstance("i-1", "pending")] };
        throw awsError("InvalidAMIID.NotFound");
      },
    });
    const launch = async () =>
      await outcome(cloud.launch({ ...launchRequest, image: await cloud.resolveImage({}) }));
    assert.equal((await launch()).status, "fulfilled");
    images.shift();
    assert.equal((await launch()).status, "rejected");
    assert.equal((await launch()).status, "fulfilled");
  });
});

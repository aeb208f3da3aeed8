import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Host } from "@aws-sdk/client-ec2";
import type { LaunchRequest } from "@kip/cloud";
import { ManualClock } from "@kip/testing";
import type { Ec2Calls } from "../ec2/ec2-calls.ts";
import type { AwsCloudOptions } from "../open-aws-cloud.ts";
import {
  awsError,
  describedInstance,
  fakeCloud,
  launchRequest,
  reservations,
  type Answers,
} from "../testing/fake-ec2.ts";
import { ownTags } from "../tags.ts";

interface TestHost {
  readonly id: string;
  readonly asked: Ec2Calls["AllocateHosts"][0];
  readonly atMs: number;
  state: Host["State"];
  room: number;
  instances: string[];
}

const dedicated = (token: string, more: Partial<LaunchRequest> = {}): LaunchRequest => ({
  ...launchRequest,
  token,
  instanceType: "m5.large",
  launchType: "dedicated",
  ...more,
});

/** An EC2 with one host for each client token, and drivers of the owner "me". */
function world({ answers = {}, pendingMs = 0 }: { answers?: Answers; pendingMs?: number } = {}) {
  const clock = new ManualClock();
  const hosts: TestHost[] = [];
  const started: string[] = [];
  const shown = (host: TestHost): Host => ({
    HostId: host.id,
    AvailabilityZone: host.asked.AvailabilityZone,
    HostProperties: { InstanceType: host.asked.InstanceType },
    Tags: host.asked.TagSpecifications?.[0]?.Tags,
    AllocationTime: new Date(clock.now() - (clock.monotonic() - host.atMs)),
    State: clock.monotonic() - host.atMs < pendingMs ? "pending" : host.state,
    Instances: host.instances.map((InstanceId) => ({ InstanceId })),
    AvailableCapacity: {
      AvailableInstanceCapacity: [
        { InstanceType: host.asked.InstanceType, AvailableCapacity: host.room },
      ],
    },
  });
  const allocate = (asked: Ec2Calls["AllocateHosts"][0]) => {
    const known = hosts.find((each) => each.asked.ClientToken === asked.ClientToken);
    const id = known?.id ?? `h-${hosts.length + 1}`;
    const more = { state: "available" as const, room: 2, instances: [] };
    if (!known) hosts.push({ id, asked, atMs: clock.monotonic(), ...more });
    return { HostIds: [id] };
  };
  const start = (input: Ec2Calls["RunInstances"][0]) => {
    const host = hosts.find((each) => each.id === input.Placement?.HostId);
    if (host?.state !== "available") throw awsError("InvalidHostID.NotFound");
    if (host.room === 0) throw awsError("InsufficientCapacityOnHost");
    const id = `i-${started.length + 1}`;
    started.push(host.id);
    host.room -= 1;
    host.instances.push(id);
    return { Instances: [describedInstance(id, "pending")] };
  };
  const all: Answers = {
    DescribeInstances: () => reservations(),
    AllocateHosts: allocate,
    DescribeHosts: () => ({ Hosts: hosts.map(shown) }),
    ReleaseHosts: ({ HostIds = [] }) => {
      for (const each of hosts) if (HostIds.includes(each.id)) each.state = "released";
      return {};
    },
    RunInstances: start,
    ...answers,
  };
  const open = (options: Partial<AwsCloudOptions> = {}) =>
    fakeCloud(clock, all, { dedicatedHosts: true, ...options });
  return {
    clock,
    hosts,
    started,
    allocate,
    start,
    open,
    shown: () => ({ Hosts: hosts.map(shown) }),
  };
}

const released = (hosts: readonly TestHost[]): readonly string[] =>
  hosts.filter(({ state }) => state === "released").map(({ id }) => id);

/** The code of a refused call. */
function codeOf(outcome: PromiseSettledResult<unknown>): unknown {
  return outcome.status === "rejected" ? (outcome.reason as { code?: unknown }).code : "launched";
}

describe("Hosts", () => {
  for (const code of ["InvalidHostID.NotFound", "InvalidHostState"])
    it(`repeats a launch on a new host that a part of EC2 does not know yet (${code})`, async () => {
      const one: ReturnType<typeof world> = world({
        answers: {
          RunInstances: (input) => {
            if (one.clock.monotonic() - (one.hosts[0]?.atMs ?? 0) < 20_000) throw awsError(code);
            return one.start(input);
          },
        },
      });
      const { cloud, outcome } = one.open();
      assert.equal(codeOf(await outcome(cloud.launch(dedicated("a")))), "launched");
      assert.deepEqual(one.started, ["h-1"]);
      assert.equal(one.hosts.length, 1);
    });

  it("allocates one host for a launch that finds none that it can use, and can be repeated", async () => {
    const one = world({
      answers: {
        RunInstances: () => {
          throw awsError("InvalidHostID.NotFound");
        },
      },
    });
    const { cloud, outcome } = one.open();
    assert.equal(codeOf(await outcome(cloud.launch(dedicated("a")))), "CLOUD_UNAVAILABLE");
    assert.equal(one.hosts.length, 1);
  });

  it("takes no other host, but another type, where no host has such a configuration", async () => {
    const one = world({
      answers: {
        RunInstances: () => {
          throw awsError("InvalidHostConfiguration");
        },
      },
    });
    const { cloud, outcome } = one.open();
    for (let attempt = 0; attempt < 3; attempt++)
      assert.equal(codeOf(await outcome(cloud.launch(dedicated("a")))), "CLOUD_NO_CAPACITY");
    assert.equal(one.hosts.length, 1);
  });

  it("waits for a host that is pending, also in a repetition, and does not give it back meanwhile", async () => {
    let lost = 2;
    const one: ReturnType<typeof world> = world({
      pendingMs: 200_000,
      answers: {
        AllocateHosts: (input) => {
          const answer = one.allocate(input);
          if (lost-- > 0) throw Object.assign(new Error("lost"), { code: "ECONNRESET" });
          return answer;
        },
      },
    });
    const { cloud, outcome } = one.open();
    const launch = async () => codeOf(await outcome(cloud.launch(dedicated("a"))));
    assert.equal(await launch(), "CLOUD_UNAVAILABLE");
    const second = await launch();
    assert.deepEqual(await cloud.hosts?.releaseEmpty(), []);
    assert.equal(second, "CLOUD_UNAVAILABLE");
    assert.equal(await launch(), "launched");
    assert.deepEqual([one.hosts.length, one.started], [1, ["h-1"]]);
  });

  it("asks for a host of a lost answer by the same client token, though EC2 does not list it yet", async () => {
    let isListed = false;
    let lost = 1;
    const one: ReturnType<typeof world> = world({
      answers: {
        DescribeHosts: () => (isListed ? one.shown() : { Hosts: [] }),
        AllocateHosts: (input) => {
          const answer = one.allocate(input);
          if (lost-- > 0) throw Object.assign(new Error("lost"), { code: "ECONNRESET" });
          return answer;
        },
      },
    });
    const { cloud, outcome } = one.open();
    assert.equal(codeOf(await outcome(cloud.launch(dedicated("a")))), "CLOUD_UNAVAILABLE");
    void one.clock.sleep(5000).then(() => (isListed = true));
    assert.equal(codeOf(await outcome(cloud.launch(dedicated("a")))), "launched");
    assert.equal(one.hosts.length, 1);
  });

  it("launches on its full host once more, where the instance of a lost answer may be", async () => {
    let isListed = false;
    const one: ReturnType<typeof world> = world({
      answers: {
        DescribeInstances: () =>
          isListed ? reservations(describedInstance("i-1", "running")) : reservations(),
        RunInstances: (input) => {
          const [host] = one.hosts;
          if (host?.room === 0) isListed = true;
          if (host?.room === 0) throw awsError("IdempotentParameterMismatch");
          if (host) host.room = 1;
          one.start(input);
          throw Object.assign(new Error("lost"), { code: "ECONNRESET" });
        },
      },
    });
    const { cloud, outcome } = one.open();
    const request = dedicated("uid-1");
    assert.equal(codeOf(await outcome(cloud.launch(request))), "CLOUD_UNAVAILABLE");
    await outcome(cloud.launch(request));
    assert.deepEqual([one.hosts.length, isListed], [1, true]);
  });

  it("gives a launch another host when its own was given back, one that EC2 has not answered with before", async () => {
    const one = world();
    const { cloud, outcome } = one.open();
    await outcome(cloud.launch(dedicated("a")));
    const [first] = one.hosts;
    if (first) [first.state, first.instances] = ["released", []];
    assert.equal(codeOf(await outcome(cloud.launch(dedicated("a")))), "launched");
    assert.deepEqual(one.started, ["h-1", "h-2"]);
  });

  it("fails at once when the host that it waits for is gone", async () => {
    const one = world({ pendingMs: 100_000 });
    const { cloud } = one.open();
    const launched = cloud.launch(dedicated("a")).catch((error: unknown) => error);
    await one.clock.advance(5000);
    const [first] = one.hosts;
    assert.ok(first);
    one.hosts.splice(0, 1);
    await one.clock.advance(2000);
    assert.match(String(await launched), /host "h-1" is gone/);
  });

  it("gives back no host that is younger than two minutes, as another process may launch there", async () => {
    const one = world({ pendingMs: 1500 });
    const [{ cloud, outcome }, other] = [one.open(), one.open()];
    const launched = outcome(cloud.launch(dedicated("a")));
    await one.clock.advance(1000);
    assert.deepEqual(await other.cloud.hosts?.releaseEmpty(), []);
    assert.equal(codeOf(await launched), "launched");
    for (const each of one.hosts) each.instances = [];
    await one.clock.advance(100_000);
    assert.deepEqual(await other.cloud.hosts?.releaseEmpty(), []);
    await one.clock.advance(20_000);
    await other.cloud.hosts?.releaseEmpty();
    assert.deepEqual(released(one.hosts), ["h-1"]);
  });

  it("keeps the host of a launch that is refused for good, for its repetitions", async () => {
    const one = world({
      answers: {
        RunInstances: () => {
          throw awsError("InvalidParameterValue");
        },
      },
    });
    const { cloud, outcome } = one.open();
    for (let attempt = 0; attempt < 3; attempt++) {
      assert.equal(codeOf(await outcome(cloud.launch(dedicated("a")))), "CLOUD_INVALID_REQUEST");
      await cloud.hosts?.releaseEmpty();
      await one.clock.advance(30_000);
    }
    assert.deepEqual([one.hosts.length, released(one.hosts)], [1, []]);
  });

  it("lets launches of other types and the sweep go on while RunInstances does not answer", async () => {
    const hanging = Promise.withResolvers<undefined>();
    const one: ReturnType<typeof world> = world({
      answers: {
        RunInstances: async (input) => {
          if (input.InstanceType === "m5.large") await hanging.promise;
          return one.start(input);
        },
      },
    });
    const { cloud, outcome } = one.open();
    const slow = ["a", "b", "c"].map(async (token) => await cloud.launch(dedicated(token)));
    await one.clock.advance(1000);
    const other = outcome(cloud.launch(dedicated("d", { instanceType: "c5.large" })));
    assert.equal(codeOf(await other), "launched");
    assert.deepEqual(await cloud.hosts?.releaseEmpty(), []);
    hanging.resolve(undefined);
    await outcome(Promise.all(slow));
    assert.equal(one.started.length, 4);
  });

  it("has AWS put no other host in the place of one that it retires", async () => {
    const one = world();
    const { cloud, outcome } = one.open();
    await outcome(cloud.launch(dedicated("a")));
    assert.equal(one.hosts[0]?.asked.HostMaintenance, "off");
  });

  it("lists hosts for who launches nothing, without the option and of a whole family, too", async () => {
    const tags = [{ Key: ownTags.owner, Value: "me" }];
    const family = { HostId: "h-f", State: "available", Tags: tags };
    const one = world({
      answers: {
        DescribeHosts: () => ({
          Hosts: [{ ...family, HostProperties: { InstanceFamily: "m5" } }],
        }),
      },
    });
    const { cloud } = one.open({ dedicatedHosts: false, launches: false });
    const [host] = (await cloud.hosts?.list()) ?? [];
    assert.deepEqual([host?.id, host?.instanceType], ["h-f", "m5.*"]);
    assert.equal(one.open({ dedicatedHosts: false }).cloud.hosts, undefined);
  });
});

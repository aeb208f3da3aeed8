import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { CreateRouteCommandInput, RunInstancesCommandInput } from "@aws-sdk/client-ec2";
import { CloudError } from "@kip/cloud";
import { ManualClock } from "@kip/testing";
import { ownTags } from "../tags.ts";
import {
  awsError,
  describedInstance,
  fakeCloud,
  launchRequest,
  reservations,
} from "../testing/fake-ec2.ts";

const [first, second] = ["10.1.0.0/16", "2001:db8:1::/64"];

/**
 * A VPC whose main table has these routes (instances by range), with the instances' states and the interfaces in their tags.
 */
function vpc(
  routes: Record<string, string> = {},
  states: Record<string, string> = {},
  noted: Record<string, string> = {},
) {
  const clock = new ManualClock();
  const order: string[] = [];
  /** The error code of each removal of a route. Empty: it succeeds. */
  const fault = { code: "" };
  /** A change of a route waits for this before it takes effect. */
  const gate: { opened?: Promise<void> } = {};
  const rangeOf = ({
    DestinationCidrBlock: v4,
    DestinationIpv6CidrBlock: v6,
  }: object & {
    readonly DestinationCidrBlock?: string | undefined;
    readonly DestinationIpv6CidrBlock?: string | undefined;
  }) => v4 ?? v6 ?? "";
  const set = async (input: CreateRouteCommandInput) => {
    await gate.opened;
    order.push(`${input.RouteTableId} ${rangeOf(input)} ${input.InstanceId}`);
    routes[rangeOf(input)] = input.InstanceId ?? "";
  };
  const described = (id: string, state: string) =>
    describedInstance(id, state, {
      routes: `${first} ${second}`,
      routedInterface: noted[id] ?? "",
    });
  /** Like in EC2, a route through an ended instance only names the interface. */
  const targetOf = (id: string) => {
    if (id.startsWith("eni-live")) return { NetworkInterfaceId: id, State: "active" };
    if (id.startsWith("eni-")) return { NetworkInterfaceId: id, State: "blackhole" };
    if (!id.startsWith("i-")) return { GatewayId: id, State: "active" };
    return states[id] === "terminated"
      ? { NetworkInterfaceId: `eni-${id}`, State: "blackhole" }
      : { InstanceId: id, NetworkInterfaceId: `eni-${id}`, State: "active" };
  };
  let launches = 0;
  const fake = fakeCloud(clock, {
    DescribeInstances: () =>
      reservations(...Object.entries(states).map(([id, now]) => described(id, now))),
    RunInstances: ({ TagSpecifications = [] }: RunInstancesCommandInput) => {
      const tag = TagSpecifications[0]?.Tags?.find(({ Key }) => Key === ownTags.routes);
      const id = `i-${++launches}`;
      states[id] = "running";
      return { Instances: [describedInstance(id, "pending", { routes: tag?.Value ?? "" })] };
    },
    ModifyInstanceAttribute: ({ SourceDestCheck }) => order.push(`${SourceDestCheck?.Value}`),
    CreateTags: ({ Resources: [id = ""] = [], Tags = [] }) => {
      noted[id] = Tags.find(({ Key }) => Key === ownTags.routedInterface)?.Value ?? "";
    },
    TerminateInstances: () => order.push("end"),
    DescribeRouteTables: () => ({
      RouteTables: [
        { RouteTableId: "rtb-other", Associations: [{ SubnetId: "subnet-2" }], Routes: [] },
        {
          RouteTableId: "rtb-main",
          Associations: [{ Main: true }],
          Routes: Object.entries(routes).map(([range, id]) => ({
            [range.includes(":") ? "DestinationIpv6CidrBlock" : "DestinationCidrBlock"]: range,
            ...targetOf(id),
          })),
        },
      ],
    }),
    CreateRoute: set,
    ReplaceRoute: set,
    DeleteRoute: (input) => {
      const range = rangeOf(input);
      if (fault.code !== "") throw awsError(fault.code);
      if (routes[range] === undefined) throw awsError("InvalidRoute.NotFound");
      order.push(`delete ${range}`);
      delete routes[range];
    },
  });
  const launch = async (token = "uid-1") => {
    const request = { ...launchRequest, token, routes: [first, second] };
    const launched = await fake.outcome(fake.cloud.launch(request));
    assert.ok(launched.status === "fulfilled");
    return await fake.outcome(fake.cloud.waitForRunning(launched.value.id));
  };
  return { ...fake, clock, launch, routes, states, noted, order, fault, gate };
}

describe("Routes", () => {
  it("lead ranges to an instance that runs by the subnet's table, the main one too, and lets it forward", async () => {
    const { launch, order } = vpc({ "10.0.0.0/16": "local" });
    assert.equal((await launch()).status, "fulfilled");
    assert.deepEqual(order, ["false", `rtb-main ${first} i-1`, `rtb-main ${second} i-1`]);
  });

  it("are removed before the instance ends, and no others", async () => {
    const { cloud, launch, routes, order, outcome } = vpc({
      "0.0.0.0/0": "igw-1",
      "10.9.0.0/16": "i-9",
    });
    await launch();
    await outcome(cloud.terminate("i-1"));
    assert.deepEqual(order.slice(3), [`delete ${first}`, `delete ${second}`, "end"]);
    assert.deepEqual(routes, { "0.0.0.0/0": "igw-1", "10.9.0.0/16": "i-9" });
  });

  it("are removed with an instance that ends by itself", async () => {
    const { cloud, clock, launch, routes, states } = vpc();
    cloud.onTerminated(() => {});
    await launch();
    states["i-1"] = "terminated";
    await clock.advance(20_000);
    assert.deepEqual(routes, {});
    assert.equal((await launch("uid-2")).status, "fulfilled");
    assert.deepEqual(routes, { [first]: "i-2", [second]: "i-2" });
  });

  it("are replaced by a later process, if their instance was lost while none ran", async () => {
    const { launch, routes, states, noted } = vpc();
    await launch();
    states["i-1"] = "terminated";
    const later = vpc(routes, { "i-0": "terminated" }, { "i-0": noted["i-1"] ?? "" });
    assert.deepEqual(noted, { "i-1": "eni-i-1" });
    for (const range of [first, second]) routes[range] = "eni-i-1";
    assert.equal((await later.launch()).status, "fulfilled");
    assert.deepEqual(routes, { [first]: "i-1", [second]: "i-1" });
  });

  it("are removed by a later process that sees their instance end", async () => {
    const noted = { "i-1": "eni-i-1" };
    const { cloud, routes, outcome } = vpc(
      { [first]: "eni-i-1", [second]: "eni-live" },
      { "i-1": "shutting-down" },
      noted,
    );
    await outcome(cloud.terminate("i-1"));
    assert.deepEqual(routes, { [second]: "eni-live" });
  });

  it("are made by a process that comes later, and not for an instance that ends", async () => {
    const { cloud, clock, routes, outcome } = vpc({}, { "i-1": "running" });
    await cloud.list();
    await clock.advance(100);
    assert.deepEqual(routes, { [first]: "i-1", [second]: "i-1" });
    await outcome(cloud.terminate("i-1"));
    await cloud.list();
    await clock.advance(100);
    assert.deepEqual(routes, {});
  });

  it("replace those of an instance of this owner that has ended, and of nothing else", async () => {
    for (const state of ["terminated", "shutting-down"]) {
      const ended = vpc({ [first]: "i-0" }, { "i-0": state }, { "i-0": "eni-i-0" });
      assert.equal((await ended.launch()).status, "fulfilled");
      assert.equal(ended.routes[first], "i-1");
    }
    for (const [target, states] of [
      ["i-0", { "i-0": "running" }],
      ["i-9", {}],
      ["vgw-1", {}],
      ["eni-9", { "i-0": "terminated" }],
      ["eni-live", { "i-0": "terminated" }],
    ] as const) {
      const noted = { "i-0": target === "eni-live" ? target : "eni-i-0" };
      const other = vpc({ [first]: target }, { ...states }, noted);
      const result = await other.launch();
      assert.ok(
        result.status === "rejected" && CloudError.is(result.reason, "CLOUD_INVALID_REQUEST"),
        target,
      );
      assert.equal(other.routes[first], target);
    }
  });

  it("do not keep an instance from ending that cannot be removed", async () => {
    const { cloud, launch, routes, order, outcome, fault } = vpc();
    await launch();
    fault.code = "UnauthorizedOperation";
    assert.equal((await outcome(cloud.terminate("i-1"))).status, "fulfilled");
    assert.equal(order.at(-1), "end");
    assert.deepEqual(routes, { [first]: "i-1", [second]: "i-1" });
  });

  it("are removed again after a failure", async () => {
    const { cloud, clock, launch, routes, states, outcome, fault } = vpc();
    await launch();
    fault.code = "RequestLimitExceeded";
    await outcome(cloud.terminate("i-1"));
    states["i-1"] = "terminated";
    await clock.advance(60_000);
    assert.deepEqual(routes, { [first]: "i-1", [second]: "i-1" });
    fault.code = "";
    await clock.advance(600_000);
    assert.deepEqual(routes, {});
  });

  it("are not removed of a range that another instance has got meanwhile", async () => {
    const { cloud, clock, launch, routes, states, outcome, fault } = vpc();
    await launch();
    fault.code = "RequestLimitExceeded";
    await outcome(cloud.terminate("i-1"));
    states["i-1"] = "terminated";
    assert.equal((await launch("uid-2")).status, "fulfilled");
    assert.deepEqual(routes, { [first]: "i-2", [second]: "i-2" });
    routes[second] = "i-1"; // a lagging response
    fault.code = "";
    await clock.advance(600_000);
    assert.deepEqual(routes, { [first]: "i-2", [second]: "i-1" });
  });

  it("that are being made when their instance has to end are removed, and no more are made", async () => {
    const { cloud, clock, launch, routes, order, outcome, gate } = vpc();
    const { promise, resolve } = Promise.withResolvers<void>();
    gate.opened = promise;
    const running = launch();
    for (let turn = 0; turn < 100 && order.length === 0; turn++) await clock.advance(100);
    const ending = outcome(cloud.terminate("i-1"));
    await clock.advance(1000);
    assert.deepEqual(order, ["false"]);
    resolve();
    assert.equal((await ending).status, "fulfilled");
    const result = await running;
    assert.ok(result.status === "rejected" && CloudError.is(result.reason, "CLOUD_NOT_FOUND"));
    assert.deepEqual(order, ["false", `rtb-main ${first} i-1`, `delete ${first}`, "end"]);
    assert.deepEqual(routes, {});
  });

  it("that two instances ask for at once are those of one of them", async () => {
    const { cloud, routes, outcome } = vpc(
      { [first]: "i-0" },
      { "i-0": "shutting-down", "i-2": "running", "i-3": "running" },
    );
    const results = await Promise.all(
      ["i-2", "i-3"].map(async (id) => await outcome(cloud.waitForRunning(id))),
    );
    assert.deepEqual(results.map(({ status }) => status).toSorted(), ["fulfilled", "rejected"]);
    const winner = routes[first];
    assert.deepEqual(routes, { [first]: winner, [second]: winner });
    await outcome(cloud.terminate(winner === "i-2" ? "i-3" : "i-2"));
    assert.deepEqual(routes, { [first]: winner, [second]: winner });
  });
});

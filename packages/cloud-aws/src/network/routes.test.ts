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

/** A VPC whose main table has these routes, by range the instances they lead to, and the states of instances. */
function vpc(routes: Record<string, string> = {}, states: Record<string, string> = {}) {
  const clock = new ManualClock();
  const order: string[] = [];
  /** Of each removal of a route. */
  const fault = { code: "" };
  const rangeOf = ({
    DestinationCidrBlock: v4,
    DestinationIpv6CidrBlock: v6,
  }: object & {
    readonly DestinationCidrBlock?: string | undefined;
    readonly DestinationIpv6CidrBlock?: string | undefined;
  }) => v4 ?? v6 ?? "";
  const set = (input: CreateRouteCommandInput) => {
    order.push(`${input.RouteTableId} ${rangeOf(input)} ${input.InstanceId}`);
    routes[rangeOf(input)] = input.InstanceId ?? "";
  };
  const tags = { routes: `${first} ${second}` };
  const fake = fakeCloud(clock, {
    DescribeInstances: () =>
      reservations(...Object.entries(states).map(([id, now]) => describedInstance(id, now, tags))),
    RunInstances: ({ TagSpecifications = [] }: RunInstancesCommandInput) => {
      const tag = TagSpecifications[0]?.Tags?.find(({ Key }) => Key === ownTags.routes);
      states["i-1"] = "running";
      return { Instances: [describedInstance("i-1", "pending", { routes: tag?.Value ?? "" })] };
    },
    ModifyInstanceAttribute: ({ SourceDestCheck }) => order.push(`${SourceDestCheck?.Value}`),
    TerminateInstances: () => order.push("end"),
    DescribeRouteTables: () => ({
      RouteTables: [
        { RouteTableId: "rtb-other", Associations: [{ SubnetId: "subnet-2" }], Routes: [] },
        {
          RouteTableId: "rtb-main",
          Associations: [{ Main: true }],
          Routes: Object.entries(routes).map(([range, id]) => ({
            [range.includes(":") ? "DestinationIpv6CidrBlock" : "DestinationCidrBlock"]: range,
            ...(id.startsWith("i-") ? { InstanceId: id } : { GatewayId: id }),
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
  const launch = async () => {
    const request = { ...launchRequest, routes: [first, second] };
    assert.equal((await fake.outcome(fake.cloud.launch(request))).status, "fulfilled");
    return await fake.outcome(fake.cloud.waitForRunning("i-1"));
  };
  return { ...fake, clock, launch, routes, states, order, fault };
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
    const ended = vpc({ [first]: "i-0" }, { "i-0": "terminated" });
    assert.equal((await ended.launch()).status, "fulfilled");
    assert.equal(ended.routes[first], "i-1");
    for (const [target, states] of [
      ["i-0", { "i-0": "running" }],
      ["i-9", {}],
      ["vgw-1", {}],
    ] as const) {
      const other = vpc({ [first]: target }, { ...states });
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
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type * as sdk from "@aws-sdk/client-ec2";
import { CloudError } from "@kip/cloud";
import { ManualClock } from "@kip/testing";
import { awsError, describedInstance, fakeCloud, reservations } from "../testing/fake-ec2.ts";

type Call = readonly [action: string, resources: readonly string[], tags: readonly sdk.Tag[]];

/** A driver on an EC2 with standby instances. Calls that have `unknown` fail. */
function cloudOf(ids: readonly string[], unknown?: string, old: readonly string[] = []) {
  const calls: Call[] = [];
  const answer = (action: string) => {
    return ({ Resources = [], Tags = [] }: sdk.DeleteTagsCommandInput) => {
      if (unknown !== undefined && Resources.includes(unknown))
        throw awsError("InvalidInstanceID.NotFound", `The ID '${unknown}' does not exist`);
      calls.push([action, Resources, Tags]);
      return {};
    };
  };
  const described = (id: string): sdk.Instance => {
    const instance = describedInstance(id, "running");
    const [nic] = instance.NetworkInterfaces ?? [];
    return {
      ...instance,
      Tags: [
        ...(instance.Tags ?? []),
        { Key: "kip-standby", Value: "true" },
        ...old.map((Key) => ({ Key, Value: "" })),
      ],
      NetworkInterfaces: [{ ...nic, NetworkInterfaceId: `eni-${id}` }],
      RootDeviceName: "/dev/xvda",
      BlockDeviceMappings: [{ DeviceName: "/dev/xvda", Ebs: { VolumeId: `vol-${id}` } }],
    };
  };
  const fake = fakeCloud(new ManualClock(), {
    DescribeInstances: () => reservations(...ids.map(described)),
    CreateTags: answer("CreateTags"),
    DeleteTags: answer("DeleteTags"),
  });
  return { ...fake, calls };
}

describe("Tagger", () => {
  it("tags an instance, its interface and its disk, and then takes the old tags away", async () => {
    const { cloud, outcome, calls } = cloudOf(["i-1"]);
    assert.equal((await outcome(cloud.setTags("i-1", { team: "web" }))).status, "fulfilled");
    const resources = ["i-1", "eni-i-1", "vol-i-1"];
    assert.deepEqual(calls, [
      ["CreateTags", resources, [{ Key: "team", Value: "web" }]],
      ["DeleteTags", resources, [{ Key: "kip-standby" }]],
    ]);
  });

  it("asks once for what several instances have in common", async () => {
    const ids = ["i-1", "i-2", "i-3"];
    const { cloud, outcome, calls } = cloudOf(ids);
    const all = ids.map(async (id) => await outcome(cloud.setTags(id, { pod: id })));
    await Promise.all(all);
    assert.deepEqual(
      calls.map(([action, resources]) => `${action} ${resources.length}`).toSorted(),
      ["CreateTags 3", "CreateTags 3", "CreateTags 3", "DeleteTags 9"],
    );
  });

  it("tags the others of a call when EC2 does not know one of them", async () => {
    const ids = ["i-1", "i-2", "i-3"];
    const { cloud, outcome, calls } = cloudOf(ids, "i-2");
    const all = ids.map(async (id) => await outcome(cloud.setTags(id, { team: "web" })));
    const [first, second, third] = await Promise.all(all);
    assert.deepEqual([first?.status, third?.status], ["fulfilled", "fulfilled"]);
    assert.ok(second?.status === "rejected" && CloudError.is(second.reason, "CLOUD_NOT_FOUND"));
    const tagged = calls.filter(([action]) => action === "CreateTags").flatMap(([, each]) => each);
    assert.deepEqual(tagged.filter((each) => each.startsWith("i-")).toSorted(), ["i-1", "i-3"]);
  });

  it("makes room first where both sets and the driver's own tags are more than EC2 takes", async () => {
    const names = (head: string, count: number) =>
      Array.from({ length: count }, (_, at) => `${head}${at}`);
    // One of the old tags belongs to the standby pool, and nine are the driver's own.
    for (const [fresh, old, first] of [
      [30, 30, "DeleteTags 31"],
      [21, 20, "DeleteTags 21"],
      [21, 19, "CreateTags 21"],
    ] as const) {
      const { cloud, outcome, calls } = cloudOf(["i-1"], undefined, names("old", old));
      const wanted = Object.fromEntries(names("new", fresh).map((name) => [name, ""]));
      await outcome(cloud.setTags("i-1", wanted));
      const seen = calls.map(([action, , tags]) => `${action} ${tags.length}`);
      assert.deepEqual([seen[0], seen.length], [first, 2]);
    }
  });
});

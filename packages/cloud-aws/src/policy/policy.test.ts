import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { actions } from "./actions.ts";
import { imageBuildPolicy } from "./image-build-policy.ts";
import { iamPolicy, type Policy } from "./policy.ts";
import { priceRefreshPolicy } from "./price-refresh-policy.ts";

describe("iamPolicy()", () => {
  it("allows each action that the driver calls", () => {
    const policy = iamPolicy({ podRoutes: true, dedicatedHosts: true });
    const allowed = policy.Statement.flatMap(({ Action }) => Action);
    const ofPersons: Readonly<Record<string, Policy>> = {
      "builds images": imageBuildPolicy(),
      "refreshes prices": priceRefreshPolicy(),
    };
    for (const [name, scope] of Object.entries(actions)) {
      const other = ofPersons[scope]?.Statement.flatMap(({ Action }) => Action);
      assert.ok((other ?? allowed).includes(`ec2:${name}`), name);
      assert.ok(!other || !allowed.includes(`ec2:${name}`), `kip itself does not need ${name}`);
    }
  });

  it("changes and makes only what carries the owner's tag", () => {
    for (const { Sid, Action, Condition } of iamPolicy({ owner: "me" }).Statement) {
      const isRead = Action.every((name) =>
        /^(ec2:Describe|ecr:(Get|BatchGet|BatchImportUpstreamImage))/.test(name),
      );
      const isFrom = ["LaunchFrom", "MakeGroupInVpc"].includes(Sid); // inputs of a launch
      if (!isRead && !isFrom) assert.ok(Condition, Sid);
      if (["ChangeOurs", "TagOurs", "LaunchTagged", "MakeVolumes"].includes(Sid))
        assert.match(JSON.stringify(Condition), /KipControllerID":"me"/);
    }
  });

  it("lets no tags change that show whose a thing is, nor all tags go by a call that names none", () => {
    const tags = iamPolicy().Statement.find(({ Sid }) => Sid === "TagOurs");
    assert.deepEqual(tags?.Condition?.["Null"], { "aws:TagKeys": "false" });
    assert.deepEqual(tags.Condition["ForAllValues:StringNotEquals"], {
      "aws:TagKeys": ["KipControllerID", "Node"],
    });
  });

  it("names the partition, the region and the subnet", () => {
    const text = JSON.stringify(iamPolicy({ region: "us-gov-west-1", subnetIDs: ["subnet-1"] }));
    assert.match(text, /arn:aws-us-gov:ec2:us-gov-west-1:\*:subnet\/subnet-1/);
    assert.doesNotMatch(text, /arn:aws:/);
  });

  it("names images of any account by no account, also without a region", () => {
    const text = JSON.stringify(iamPolicy());
    assert.match(text, /"arn:aws:ec2:\*::image\/\*"/);
    assert.match(text, /"arn:aws:ec2:\*:\*:subnet\/\*"/);
  });

  it("lets kip pass the roles that are named, to EC2 alone, and none otherwise", () => {
    assert.doesNotMatch(JSON.stringify(iamPolicy()), /PassRole/);
    const arn = "arn:aws-cn:iam::123456789012:role/pods/web";
    const policy = iamPolicy({ region: "cn-north-1", roles: ["kip-pod-*", arn] });
    const pass = policy.Statement.find(({ Action }) => Action.includes("iam:PassRole"));
    assert.deepEqual(pass?.Resource, ["arn:aws-cn:iam::*:role/kip-pod-*", arn]);
    assert.match(JSON.stringify(pass?.Condition), /"iam:PassedToService":"ec2.amazonaws.com.cn"/);
  });

  it("uses the keys of disks that are named by EC2 alone, and grants them to AWS' own services", () => {
    const key = "arn:aws-cn:kms:cn-north-1:123456789012:key/1";
    const policy = iamPolicy({ region: "cn-north-1", diskKeys: [key] });
    const ofKeys = policy.Statement.filter(({ Action }) =>
      Action.some((each) => each.startsWith("kms:")),
    );
    assert.equal(ofKeys.length, 2);
    for (const { Resource, Condition } of ofKeys) {
      assert.deepEqual(Resource, [key]);
      const via = Condition?.["StringLike"]?.["kms:ViaService"];
      assert.equal(via, "ec2.cn-north-1.amazonaws.com*");
    }
    const grant = ofKeys.find(({ Action }) => Action.includes("kms:CreateGrant"));
    assert.deepEqual(grant?.Condition?.["Bool"], { "kms:GrantIsForAWSResource": "true" });
    assert.deepEqual(grant.Action, ["kms:CreateGrant"]);
  });

  it("uses the keys of the queue that are named by SQS alone", () => {
    const key = "arn:aws:kms:eu-west-1:123456789012:key/2";
    const queue = { interruptionQueueURL: "https://sqs.eu-west-1.amazonaws.com/123456789012/kip" };
    const ofKeys = (options: object) =>
      iamPolicy(options).Statement.filter(({ Sid }) => Sid === "UseKeysOfQueue");
    const [statement] = ofKeys({ ...queue, queueKeys: [key] });
    assert.deepEqual(statement?.Resource, [key]);
    assert.equal(statement.Condition?.["StringLike"]?.["kms:ViaService"], "sqs.*.amazonaws.com*");
    assert.deepEqual([...ofKeys(queue), ...ofKeys({ queueKeys: [key] })], []);
  });

  it("reads the queue of interruptions that is named, and none otherwise", () => {
    const arnOf = (url: string) =>
      iamPolicy({ region: "eu-west-1", interruptionQueueURL: url }).Statement.find(
        ({ Sid }) => Sid === "ReadInterruptions",
      )?.Resource;
    const arn = "arn:aws:sqs:eu-west-1:123456789012:kip";
    assert.deepEqual(arnOf("https://sqs.eu-west-1.amazonaws.com/123456789012/kip"), [arn]);
    assert.deepEqual(arnOf("https://vpce-1.sqs.eu-west-1.vpce.amazonaws.com/123456789012/kip"), [
      arn,
    ]);
    // The host of an endpoint in one zone, whose ID may end in letters.
    const zonal = "vpce-0fe5b17a0707d6abc-29p57abc-eu-west-1a.sqs.eu-west-1.vpce.amazonaws.com";
    for (const host of [zonal, "eu-west-1.queue.amazonaws.com", "sqs-fips.eu-west-1.amazonaws.com"])
      assert.deepEqual(arnOf(`https://${host}/123456789012/kip`), [arn], host);
    assert.deepEqual(arnOf("http://queue.internal/123456789012/kip"), [arn]);
    assert.doesNotMatch(JSON.stringify(iamPolicy()), /sqs:/);
  });

  it("lets cells pull images of ECR, also those that a cache of another registry has to fetch", () => {
    const pull = iamPolicy().Statement.find(({ Sid }) => Sid === "PullImages");
    // Same as AWS' own policy for nodes, AmazonEC2ContainerRegistryPullOnly.
    assert.deepEqual(pull?.Action, [
      "ecr:BatchGetImage",
      "ecr:GetDownloadUrlForLayer",
      "ecr:BatchImportUpstreamImage",
    ]);
  });

  it("leaves out what the configuration does not need", () => {
    const without = JSON.stringify(iamPolicy());
    assert.doesNotMatch(without, /ModifyInstanceAttribute|Route"/);
  });
});

describe("imageBuildPolicy()", () => {
  it("makes and changes only what has the tag of a build, and gives no other tags", () => {
    const policy = imageBuildPolicy({ region: "cn-north-1" });
    for (const { Sid, Resource, Condition } of policy.Statement) {
      if (Sid === "Read") continue;
      assert.match(JSON.stringify(Condition), /KipImageDisk/, Sid);
      for (const each of Resource)
        assert.match(each, /^arn:aws-cn:ec2:cn-north-1::(image|snapshot)\/\*$/);
    }
    const tags = policy.Statement.find(({ Sid }) => Sid === "TagWhatIsMade");
    assert.deepEqual(tags?.Condition?.["ForAllValues:StringEquals"], {
      "aws:TagKeys": ["Name", "KipImage", "KipImageDisk"],
    });
  });
});

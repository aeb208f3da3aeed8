import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { actions } from "./actions.ts";
import { iamPolicy, type PolicyOptions } from "./policy.ts";

/** Options with everything that a configuration can enable. */
const everything: PolicyOptions = {
  owner: "me",
  roles: ["pods"],
  diskKeys: ["arn:aws:kms:us-east-1:123456789012:key/1"],
  interruptionQueueURL: "https://sqs.us-east-1.amazonaws.com/123456789012/kip",
  podRoutes: true,
  switchesSourceDestCheck: true,
  dedicatedHosts: true,
};

const ours = 'StringLike aws:ResourceTag/KipControllerID "me"';
const asked = 'StringLike aws:RequestTag/KipControllerID "me"';
const changed = `instance volume security-group if ${ours}`;
const tagged = `instance volume network-interface if ${ours}, ForAllValues:StringNotEquals aws:TagKeys ["KipControllerID","Node"], Null aws:TagKeys "false"`;
const made = "instance volume network-interface spot-instances-request";

/** What kip may do with each EC2 action, and under which conditions. One row for each statement that allows the action. */
const rows: Readonly<Record<string, readonly string[]>> = {
  AllocateHosts: [`dedicated-host if ${asked}`],
  AttachVolume: [changed],
  AuthorizeSecurityGroupIngress: [changed],
  CreateRoute: ["route-table"],
  CreateSecurityGroup: [`security-group if ${asked}`, "vpc"],
  CreateTags: [
    tagged,
    `${made} security-group if StringEquals ec2:CreateAction ["RunInstances","CreateVolume","CreateSecurityGroup"]`,
    'dedicated-host if StringEquals ec2:CreateAction ["AllocateHosts"]',
  ],
  CreateVolume: [`volume if ${asked}`],
  DeleteRoute: ["route-table"],
  DeleteTags: [tagged],
  DeleteVolume: [changed],
  DescribeDhcpOptions: ["*"],
  DescribeHosts: ["*"],
  DescribeImages: ["*"],
  DescribeInstances: ["*"],
  DescribeInstanceTypes: ["*"],
  DescribeRouteTables: ["*"],
  DescribeSecurityGroups: ["*"],
  DescribeSubnets: ["*"],
  DescribeVolumes: ["*"],
  DescribeVpcs: ["*"],
  DetachVolume: [changed],
  GetConsoleOutput: [changed],
  ModifyInstanceAttribute: [changed],
  ModifyVolume: [changed],
  ReleaseHosts: [`dedicated-host if ${ours}`],
  ReplaceRoute: ["route-table"],
  RevokeSecurityGroupIngress: [changed],
  RunInstances: [`${made} if ${asked}`, "subnet security-group image snapshot"],
  TerminateInstances: [changed],
};

/** Actions that a configuration only needs with one option. */
const onlyWith: readonly (readonly [Partial<PolicyOptions>, readonly string[]])[] = [
  [{ roles: ["pods"] }, ["iam:PassRole"]],
  [
    { diskKeys: everything.diskKeys },
    [
      "kms:CreateGrant",
      "kms:Decrypt",
      "kms:DescribeKey",
      "kms:GenerateDataKeyWithoutPlaintext",
      "kms:ReEncrypt*",
    ],
  ],
  [
    { interruptionQueueURL: everything.interruptionQueueURL },
    ["sqs:DeleteMessage", "sqs:ReceiveMessage"],
  ],
  [
    {
      interruptionQueueURL: everything.interruptionQueueURL,
      queueKeys: ["arn:aws:kms:us-east-1:123456789012:key/2"],
    },
    ["kms:Decrypt", "sqs:DeleteMessage", "sqs:ReceiveMessage"],
  ],
  [
    { podRoutes: true },
    ["ec2:CreateRoute", "ec2:DeleteRoute", "ec2:ModifyInstanceAttribute", "ec2:ReplaceRoute"],
  ],
  [{ switchesSourceDestCheck: true }, ["ec2:ModifyInstanceAttribute"]],
  [
    { dedicatedHosts: true },
    ["ec2:AllocateHosts", "ec2:DescribeInstanceTypes", "ec2:ReleaseHosts"],
  ],
];

describe("the policy of kip on EC2, row by row", () => {
  it("allows each action on these resources under these conditions, and nothing else", () => {
    const found = new Map<string, string[]>();
    for (const { Action, Resource, Condition } of iamPolicy(everything).Statement)
      for (const action of Action) {
        if (!action.startsWith("ec2:")) continue;
        const name = action.slice("ec2:".length);
        found.set(name, [...(found.get(name) ?? []), rowOf(Resource, Condition)]);
      }
    assert.deepEqual(Object.fromEntries(found), rows);
  });

  it("has a row for each action that the driver calls for kip itself", () => {
    const ofPersons = ["builds images", "refreshes prices"];
    const called = Object.entries(actions).filter(([, scope]) => !ofPersons.includes(scope));
    assert.deepEqual(
      called.map(([name]) => name),
      Object.keys(rows),
    );
  });

  for (const [option, expected] of onlyWith) {
    const name = Object.keys(option).join();
    it(`allows ${expected.join(", ")} with ${name}, and not without it`, () => {
      const least = actionsOf({});
      assert.deepEqual(
        [...actionsOf(option)].filter((action) => !least.has(action)).toSorted(),
        expected,
      );
      assert.deepEqual(
        [...least].filter((action) => !actionsOf(option).has(action)),
        [],
      );
    });
  }

  it("names no resource that the options do not need", () => {
    const text = JSON.stringify(iamPolicy({ owner: "me" }));
    assert.doesNotMatch(text, /dedicated-host|route-table|sqs|kms|role\//);
  });
});

function actionsOf(options: PolicyOptions): ReadonlySet<string> {
  return new Set(iamPolicy(options).Statement.flatMap(({ Action }) => Action));
}

/** Describes the kinds of resources and the conditions in words. */
function rowOf(
  resources: readonly string[],
  condition: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {},
): string {
  const kinds = resources.map((arn) => arn.replace(/^arn:.*:/, "").replace(/\/\*$/, ""));
  const keys = Object.entries(condition).flatMap(([operator, compared]) =>
    Object.entries(compared).map(([key, value]) => `${operator} ${key} ${JSON.stringify(value)}`),
  );
  return [kinds.join(" "), ...(keys.length > 0 ? [`if ${keys.join(", ")}`] : [])].join(" ");
}

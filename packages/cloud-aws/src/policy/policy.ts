import type { Ec2Action } from "../ec2/ec2-calls.ts";
import { queueActions, queueArn } from "../interruption/queue.ts";
import { partitionOf } from "../partition.ts";
import { ecrAction } from "../registry/ecr-log-ins.ts";
import { ownTags } from "../tags.ts";
import { actions, type ActionScope } from "./actions.ts";

/** A statement of an IAM policy. */
export interface PolicyStatement {
  readonly Sid: string;
  readonly Effect: "Allow";
  readonly Action: readonly string[];
  readonly Resource: readonly string[];
  readonly Condition?: Readonly<
    Record<string, Readonly<Record<string, string | readonly string[]>>>
  >;
}

/** An IAM policy, ready to be printed as JSON. */
export interface Policy {
  readonly Version: "2012-10-17";
  readonly Statement: readonly PolicyStatement[];
}

/** Options of {@link iamPolicy}. */
export interface PolicyOptions {
  /** `aws`, `aws-us-gov` or `aws-cn`. @default the region's */
  readonly partition?: string | undefined;
  /** @default any region */
  readonly region?: string | undefined;
  /** @default any subnet */
  readonly subnetIDs?: readonly string[] | undefined;
  /** ID of the installation. @default any Kip installation of the account */
  readonly owner?: string | undefined;
  /**
   * Roles that cells may have through their instance profiles: names with their paths, or ARNs; `*` is a wildcard. kip may give
   * cells no other role. @default none
   */
  readonly roles?: readonly string[] | undefined;
  /**
   * ARNs of the account's own KMS keys for disks. kip uses them only through EC2. @default `aws/ebs`, which needs no
   * permissions
   */
  readonly diskKeys?: readonly string[] | undefined;
  /** URL of the interruption queue. @default none */
  readonly interruptionQueueURL?: string | undefined;
  /**
   * ARNs of own KMS keys that encrypt the queue. kip uses them only through SQS. @default SQS' own keys, which need no
   * permissions
   */
  readonly queueKeys?: readonly string[] | undefined;
  /** Whether pods can ask for routes of address ranges to them. @default false */
  readonly podRoutes?: boolean | undefined;
  /** Whether kip allocates dedicated hosts. @default false */
  readonly dedicatedHosts?: boolean | undefined;
  /** Whether kip disables the source/destination check of cells. @default false */
  readonly switchesSourceDestCheck?: boolean | undefined;
}

/**
 * The minimal policy for kip on EC2. Allows changing only resources with the owner tag, and creating only such resources.
 *
 * @see https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html
 */
export function iamPolicy(options: PolicyOptions = {}): Policy {
  const { owner = "*", switchesSourceDestCheck = false, podRoutes = false } = options;
  const ours = actionsOf("ours").filter(
    (name) => switchesSourceDestCheck || podRoutes || name !== "ec2:ModifyInstanceAttribute",
  );
  const arn = arnOf(options);
  return {
    Version: "2012-10-17",
    Statement: [
      { Sid: "Read", Effect: "Allow", Action: actionsOf("reads"), Resource: ["*"] },
      {
        Sid: "ChangeOurs",
        Effect: "Allow",
        Action: ours,
        Resource: ["instance/*", "volume/*", "security-group/*"].map(arn),
        Condition: { StringLike: { [`aws:ResourceTag/${ownTags.owner}`]: owner } },
      },
      {
        Sid: "TagOurs",
        Effect: "Allow",
        Action: actionsOf("tags"),
        Resource: ["instance/*", "volume/*", "network-interface/*"].map(arn),
        Condition: {
          StringLike: { [`aws:ResourceTag/${ownTags.owner}`]: owner },
          // The owner of a resource cannot be changed.
          "ForAllValues:StringNotEquals": { "aws:TagKeys": [ownTags.owner, ownTags.token] },
          // The condition before this one is also true without keys, and DeleteTags without keys removes all tags.
          Null: { "aws:TagKeys": "false" },
        },
      },
      ...makingStatements(owner, arn, options),
      ...passStatements(options),
      ...diskKeyStatements(options),
      ...registryStatements(options),
      ...queueStatements(options),
      ...hostStatements(owner, arn, options),
      ...(podRoutes
        ? [
            {
              Sid: "LeadToPods",
              Effect: "Allow" as const,
              Action: actionsOf("routes"),
              Resource: [arn("route-table/*")],
            },
          ]
        : []),
    ],
  };
}

function makingStatements(
  owner: string,
  arn: (resource: string) => string,
  { subnetIDs = [] }: PolicyOptions,
): readonly PolicyStatement[] {
  const isTagged = { StringLike: { [`aws:RequestTag/${ownTags.owner}`]: owner } };
  const made = ["instance/*", "volume/*", "network-interface/*", "spot-instances-request/*"];
  return [
    {
      Sid: "LaunchTagged",
      Effect: "Allow",
      Action: actionsOf("launch"),
      Resource: made.map(arn),
      Condition: isTagged,
    },
    {
      Sid: "LaunchFrom",
      Effect: "Allow",
      Action: actionsOf("launch"),
      // Images and their snapshots may belong to another account.
      Resource: [
        ...[
          ...(subnetIDs.length === 0 ? ["*"] : subnetIDs).map((id) => `subnet/${id}`),
          "security-group/*",
        ].map(arn),
        ...["image/*", "snapshot/*"].map((each) => arn(each).replace(`:*:${each}`, `::${each}`)),
      ],
    },
    {
      Sid: "MakeVolumes",
      Effect: "Allow",
      Action: actionsOf("makes volumes"),
      Resource: [arn("volume/*")],
      Condition: isTagged,
    },
    {
      Sid: "MakeGroup",
      Effect: "Allow",
      Action: actionsOf("makes groups"),
      Resource: [arn("security-group/*")],
      Condition: isTagged,
    },
    {
      Sid: "MakeGroupInVpc",
      Effect: "Allow",
      Action: actionsOf("makes groups"),
      Resource: [arn("vpc/*")],
    },
    {
      Sid: "TagWhatIsMade",
      Effect: "Allow",
      Action: ["ec2:CreateTags"],
      Resource: [...made, "security-group/*"].map(arn),
      Condition: {
        StringEquals: {
          "ec2:CreateAction": [
            ...actionsOf("launch"),
            ...actionsOf("makes volumes"),
            ...actionsOf("makes groups"),
          ].map((each) => each.replace("ec2:", "")),
        },
      },
    },
  ];
}

/** Cells pull with kip's identity: ECR images that it may read, if the registry's owner allows it. */
function registryStatements(options: PolicyOptions): readonly PolicyStatement[] {
  return [
    {
      Sid: "LogInToRegistries",
      Effect: "Allow",
      Action: [`ecr:${ecrAction}`],
      Resource: ["*"], // the action knows no resources
    },
    {
      Sid: "PullImages",
      Effect: "Allow",
      // A pull-through cache needs the last one to fetch an image from another registry first.
      Action: ["ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer", "ecr:BatchImportUpstreamImage"],
      Resource: [`arn:${partitionFor(options)}:ecr:*:*:repository/*`],
    },
  ];
}

/** For interruption notices, if there is a queue. */
function queueStatements(options: PolicyOptions): readonly PolicyStatement[] {
  const { interruptionQueueURL: url, queueKeys = [], region = "*" } = options;
  if (url === undefined) return [];
  const bySqs = { StringLike: { "kms:ViaService": "sqs.*.amazonaws.com*" } };
  return [
    ...(queueKeys.length === 0
      ? []
      : [
          {
            Sid: "UseKeysOfQueue",
            Effect: "Allow" as const,
            Action: ["kms:Decrypt"],
            Resource: queueKeys,
            Condition: bySqs,
          },
        ]),
    {
      Sid: "ReadInterruptions",
      Effect: "Allow",
      Action: queueActions.map((each) => `sqs:${each}`),
      Resource: [queueArn(url, { partition: partitionFor(options), region })],
    },
  ];
}

/** Allows creating hosts with the owner's tag, and releasing only such hosts. */
function hostStatements(
  owner: string,
  arn: (resource: string) => string,
  { dedicatedHosts = false }: PolicyOptions,
): readonly PolicyStatement[] {
  if (!dedicatedHosts) return [];
  const allow = (
    Sid: string,
    Action: readonly string[],
    Condition: NonNullable<PolicyStatement["Condition"]>,
  ): PolicyStatement => ({
    Sid,
    Effect: "Allow",
    Action,
    Resource: [arn("dedicated-host/*")],
    Condition,
  });
  return [
    {
      Sid: "ReadTypesOfHosts",
      Effect: "Allow",
      Action: actionsOf("reads types"),
      Resource: ["*"], // the action knows no resources
    },
    allow("AllocateTagged", actionsOf("makes hosts"), {
      StringLike: { [`aws:RequestTag/${ownTags.owner}`]: owner },
    }),
    allow("ReleaseOurs", actionsOf("releases hosts"), {
      StringLike: { [`aws:ResourceTag/${ownTags.owner}`]: owner },
    }),
    allow("TagHosts", ["ec2:CreateTags"], {
      StringEquals: { "ec2:CreateAction": ["AllocateHosts"] },
    }),
  ];
}

/** RunInstances with an instance profile passes the profile's role to EC2. */
function passStatements({ roles = [], ...options }: PolicyOptions): readonly PolicyStatement[] {
  if (roles.length === 0) return [];
  const found = partitionFor(options);
  return [
    {
      Sid: "GiveCellsRoles",
      Effect: "Allow",
      Action: ["iam:PassRole"],
      Resource: roles.map((role) =>
        role.includes(":") ? role : `arn:${found}:iam::*:role/${role}`,
      ),
      Condition: {
        StringEquals: {
          "iam:PassedToService": found === "aws-cn" ? "ec2.amazonaws.com.cn" : "ec2.amazonaws.com",
        },
      },
    },
  ];
}

/**
 * Allows what EC2 does with a key of the account for the disks of a launch.
 *
 * @see https://docs.aws.amazon.com/ebs/latest/userguide/ebs-encryption-requirements.html
 */
function diskKeyStatements({ diskKeys = [], region = "*" }: PolicyOptions): PolicyStatement[] {
  if (diskKeys.length === 0) return [];
  // Service names have another suffix in China.
  const byEc2 = { StringLike: { "kms:ViaService": `ec2.${region}.amazonaws.com*` } };
  const uses = ["Decrypt", "DescribeKey", "GenerateDataKeyWithoutPlaintext", "ReEncrypt*"];
  return [
    {
      Sid: "UseKeysOfDisks",
      Effect: "Allow",
      Action: uses.map((each) => `kms:${each}`),
      Resource: diskKeys,
      Condition: byEc2,
    },
    {
      Sid: "GrantKeysOfDisks",
      Effect: "Allow",
      Action: ["kms:CreateGrant"],
      Resource: diskKeys,
      Condition: { ...byEc2, Bool: { "kms:GrantIsForAWSResource": "true" } },
    },
  ];
}

function actionsOf(scope: ActionScope): readonly string[] {
  const names = Object.keys(actions) as Ec2Action[]; // the keys of the table
  return names.filter((name) => actions[name] === scope).map((name) => `ec2:${name}`);
}

function arnOf({ region = "*", ...options }: PolicyOptions): (resource: string) => string {
  const found = partitionFor({ region, ...options });
  return (resource) => `arn:${found}:ec2:${region}:*:${resource}`;
}

function partitionFor({ region = "*", partition }: PolicyOptions): string {
  return partition ?? partitionOf(region);
}

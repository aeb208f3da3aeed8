import type { Ec2Action } from "../ec2/ec2-calls.ts";
import { queueActions, queueArn } from "../interruption/queue.ts";
import { partitionOf } from "../partition.ts";
import { ecrAction } from "../registry/ecr-log-ins.ts";
import { ownTags } from "../tags.ts";
import { actions, type ActionScope } from "./actions.ts";

/** A statement of a policy of IAM. */
export interface PolicyStatement {
  readonly Sid: string;
  readonly Effect: "Allow";
  readonly Action: readonly string[];
  readonly Resource: readonly string[];
  readonly Condition?: Readonly<
    Record<string, Readonly<Record<string, string | readonly string[]>>>
  >;
}

/** A policy of IAM, ready to be printed as JSON. */
export interface Policy {
  readonly Version: "2012-10-17";
  readonly Statement: readonly PolicyStatement[];
}

/** What a policy is made for. */
export interface PolicyOptions {
  /** `aws`, `aws-us-gov` or `aws-cn`. @default that of the region */
  readonly partition?: string | undefined;
  /** @default any region */
  readonly region?: string | undefined;
  /** @default any subnet */
  readonly subnetIDs?: readonly string[] | undefined;
  /** ID of the installation. @default any installation of Kip in the account */
  readonly owner?: string | undefined;
  /**
   * Roles that cells may have by their instance profiles: names with their paths, ARNs; `*` is a wildcard. kip may give cells no
   * other role. @default none
   */
  readonly roles?: readonly string[] | undefined;
  /** ARNs of own KMS keys that the account encrypts disks with; kip uses them by EC2 alone. @default `aws/ebs`, which needs no rights */
  readonly diskKeys?: readonly string[] | undefined;
  /** URL of the queue of interruptions. @default none */
  readonly interruptionQueueURL?: string | undefined;
  /** ARNs of own KMS keys that the queue is encrypted with; kip uses them by SQS alone. @default SQS' own keys, which need no rights */
  readonly queueKeys?: readonly string[] | undefined;
  /** Whether pods may have packets of ranges of addresses led to them. @default false */
  readonly podRoutes?: boolean | undefined;
  /** Whether kip allocates dedicated hosts. @default false */
  readonly dedicatedHosts?: boolean | undefined;
  /** Whether kip switches the source/destination check of cells off. @default false */
  readonly switchesSourceDestCheck?: boolean | undefined;
}

/**
 * The least policy for kip on EC2: it changes only what carries the owner's tag, and makes only what does.
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
          // Nothing changes hands.
          "ForAllValues:StringNotEquals": { "aws:TagKeys": [ownTags.owner, ownTags.token] },
          // The line before holds for no keys, too, and DeleteTags without keys removes all tags.
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
      // Images and their snapshots may be another account's.
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

/** Cells pull with kip's identity: images of ECR that it may read, where the registry's owner lets it. */
function registryStatements(options: PolicyOptions): readonly PolicyStatement[] {
  return [
    {
      Sid: "LogInToRegistries",
      Effect: "Allow",
      Action: [`ecr:${ecrAction}`],
      Resource: ["*"], // it knows no resources
    },
    {
      Sid: "PullImages",
      Effect: "Allow",
      // The last one where a cache of another registry's images has to fetch one first.
      Action: ["ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer", "ecr:BatchImportUpstreamImage"],
      Resource: [`arn:${partitionFor(options)}:ecr:*:*:repository/*`],
    },
  ];
}

/** Notices of interruptions, where a queue has them. */
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

/** Hosts are made with the owner's tag, and only such are given back. */
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
      Resource: ["*"], // it knows no resources
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

/** RunInstances with an instance profile passes its role to EC2. */
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
 * What EC2 does with a key of the account for the disks of a launch.
 *
 * @see https://docs.aws.amazon.com/ebs/latest/userguide/ebs-encryption-requirements.html
 */
function diskKeyStatements({ diskKeys = [], region = "*" }: PolicyOptions): PolicyStatement[] {
  if (diskKeys.length === 0) return [];
  // Names of services end otherwise in China.
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

import type { Ec2Action } from "../ec2/ec2-calls.ts";
import type { EbsAction } from "../ami/ebs.ts";
import { imageTags } from "../ami/snapshots.ts";
import { partitionOf } from "../partition.ts";
import type { Policy, PolicyStatement } from "./policy.ts";

type Action = `ec2:${Ec2Action}` | `ebs:${EbsAction}`;

/**
 * The minimal policy for a person who runs `kip image build`. Allows creating snapshots and images with the tags of cell
 * images, and changing only such snapshots. kip itself needs none of it.
 *
 * @param region the only region to allow. @default any
 * @see https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonelasticblockstore.html
 */
export function imageBuildPolicy({
  region = "*",
}: { readonly region?: string | undefined } = {}): Policy {
  const arn = (kind: string): string => `arn:${partitionOf(region)}:ec2:${region}::${kind}/*`;
  const [image, snapshot] = [arn("image"), arn("snapshot")];
  const allow = (
    Sid: string,
    actions: readonly Action[],
    rest: Pick<PolicyStatement, "Resource" | "Condition">,
  ): PolicyStatement => ({ Sid, Effect: "Allow", Action: actions, ...rest });
  const isMade = { StringLike: { [`aws:RequestTag/${imageTags.disk}`]: "*" } };
  return {
    Version: "2012-10-17",
    Statement: [
      allow("Read", ["ec2:DescribeImages", "ec2:DescribeSnapshots"], { Resource: ["*"] }),
      allow("StartTagged", ["ebs:StartSnapshot"], { Resource: [snapshot], Condition: isMade }),
      allow("WriteOurs", ["ebs:PutSnapshotBlock", "ebs:CompleteSnapshot", "ec2:DeleteSnapshot"], {
        Resource: [snapshot],
        Condition: { StringLike: { [`aws:ResourceTag/${imageTags.disk}`]: "*" } },
      }),
      allow("RegisterTagged", ["ec2:RegisterImage"], { Resource: [image], Condition: isMade }),
      allow("RegisterOurs", ["ec2:RegisterImage"], {
        Resource: [snapshot],
        Condition: { StringLike: { [`aws:ResourceTag/${imageTags.disk}`]: "*" } },
      }),
      allow("TagWhatIsMade", ["ec2:CreateTags"], {
        Resource: [image, snapshot],
        Condition: {
          "ForAllValues:StringEquals": { "aws:TagKeys": Object.values(imageTags) },
          // The condition before this one is also true without keys.
          Null: { "aws:TagKeys": "false" },
        },
      }),
    ],
  };
}

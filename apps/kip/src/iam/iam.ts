import { defined, OptionError, type Option, type OptionValues } from "@kip/base";
import {
  iamPolicy,
  imageBuildPolicy,
  priceRefreshPolicy,
  type Policy,
} from "@kip/cloud-aws/policy";
import { parseCommand } from "../cli/parse-command.ts";
import { separateWords } from "../cli/separate-words.ts";
import { configError, readConfigFile, readConfigText } from "../config/read-provider-config.ts";
import { KipError } from "../errors.ts";

const usage = `Usage: kip iam print FILE [options]

Prints the smallest IAM policy with which kip can use AWS as FILE, a provider.yaml, says. The policy is
JSON. Makes no request to AWS.

Example: kip iam print provider.yaml > policy.json`;

const options: readonly Option[] = [
  {
    flag: "region",
    type: "string",
    help: "region that the policy is for, such as us-gov-west-1; default that of FILE, or, if that names none, all regions of the partition aws: those of China and GovCloud are in others",
  },
  {
    flag: "owner",
    type: "string",
    help: "limit the policy to the installation with this ID; default any installation",
  },
  {
    flag: "pass-role",
    type: "list",
    help: "role that instance profiles of cells may have: its name, with * as a wildcard, or its ARN. Default the name in cells.defaultIAMPermissions: AWS' console gives a profile and its role the same name",
  },
  {
    flag: "disk-key",
    type: "list",
    help: "ARN of your KMS key that the account encrypts disks with by default; not needed for aws/ebs",
  },
  {
    flag: "queue-key",
    type: "list",
    help: "ARN of your KMS key that the queue of interruptions is encrypted with; not needed for SQS' own keys",
  },
  {
    flag: "image-build",
    type: "boolean",
    help: "print the policy for kip image build instead; kip itself does not need it",
  },
  {
    flag: "prices",
    type: "boolean",
    help: "print the policy for kip prices refresh instead",
  },
  { flag: "help", type: "boolean", help: "show this text" },
];

/** Runs `kip iam`. */
export async function iamCommand(args: readonly string[]): Promise<void> {
  const { words, flags } = separateWords(args);
  const values = parseCommand(usage, options, flags);
  if (!values) return;
  const [action, file, ...more] = words;
  if (action !== "print" || file === undefined || more.length > 0)
    throw new OptionError("OPTION_MISSING", "Cannot print: write kip iam print FILE", {
      remedy: "See kip iam --help",
    });
  const { config, problems } = readConfigText(await readConfigFile(file));
  if (!config) throw configError(file, problems);
  if (config.cloud.name !== "aws")
    throw new KipError("CONFIG_INVALID", `Cannot print a policy: "${file}" has no cloud.aws`);
  const { subnetID, subnetIDs, sourceDestCheck, ...aws } = config.cloud.aws;
  const region = values.text("region") ?? aws.region;
  if (values.isSet("prices")) return printPolicy(priceRefreshPolicy());
  if (values.isSet("image-build")) return printPolicy(imageBuildPolicy({ region }));
  const policy = iamPolicy(
    defined({
      region,
      subnetIDs: subnetID === undefined ? subnetIDs : [subnetID],
      interruptionQueueURL: aws.interruptionQueueURL,
      podRoutes: aws.podRoutes,
      dedicatedHosts: aws.dedicatedHosts,
      owner: values.text("owner") ?? config.controllerID,
      diskKeys: keysOf(values, "disk-key"),
      queueKeys: keysOf(values, "queue-key"),
      roles: rolesOf(values.list("pass-role"), config.defaultInstanceProfile),
      switchesSourceDestCheck: sourceDestCheck === false,
    }),
  );
  printPolicy(policy);
}

function printPolicy(policy: Policy): void {
  process.stdout.write(`${JSON.stringify(policy, undefined, 2)}\n`);
}

/** Reads key ARNs. An alias is not a valid resource in a policy. */
function keysOf(values: OptionValues, flag: string): readonly string[] {
  const named = values.list(flag);
  const other = named.find((each) => !/^arn:[\w-]+:kms:[\w-]+:\d{12}:key\/[\w*-]+$/.test(each));
  if (other === undefined) return named;
  throw new OptionError("OPTION_INVALID", `Cannot use --${flag} ${other}: it is not a key's ARN`, {
    remedy: "See KeyMetadata.Arn of: aws kms describe-key --key-id …",
  });
}

/** The named roles, or the role that is named like the default profile. */
function rolesOf(named: readonly string[], profile: string | undefined): readonly string[] {
  if (named.length > 0) return named;
  return profile === undefined ? [] : [profile.replace(":instance-profile/", ":role/")];
}

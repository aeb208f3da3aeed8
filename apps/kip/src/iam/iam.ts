import { defined, OptionError, type Option } from "@kip/base";
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

Prints the least policy of IAM that kip needs on AWS with a provider.yaml, as JSON. Asks nothing of AWS.

Example: kip iam print provider.yaml > policy.json`;

const options: readonly Option[] = [
  {
    flag: "owner",
    type: "string",
    help: "ID of the installation, to which the policy is then limited; default any",
  },
  {
    flag: "pass-role",
    type: "list",
    help: "a role that instance profiles of cells may have: its name, with * as a wildcard, or its ARN; repeatable. Default the name in cells.defaultIAMPermissions, as AWS' console gives a profile and its role one name",
  },
  {
    flag: "image-build",
    type: "boolean",
    help: "instead the policy of who runs kip image build, which kip itself does not need",
  },
  {
    flag: "prices",
    type: "boolean",
    help: "instead the policy of who runs kip prices refresh",
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
  const { region, subnetID, subnetIDs, sourceDestCheck, ...aws } = config.cloud.aws;
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
      roles: rolesOf(values.list("pass-role"), config.defaultInstanceProfile),
      switchesSourceDestCheck: sourceDestCheck === false,
    }),
  );
  printPolicy(policy);
}

function printPolicy(policy: Policy): void {
  process.stdout.write(`${JSON.stringify(policy, undefined, 2)}\n`);
}

/** Those that are named, else the one that has the name of the default profile. */
function rolesOf(named: readonly string[], profile: string | undefined): readonly string[] {
  if (named.length > 0) return named;
  return profile === undefined ? [] : [profile.replace(":instance-profile/", ":role/")];
}

import path from "node:path";
import { OptionError, type Option, type OptionValues } from "@kip/base";
import { awsSettings } from "../aws/aws-settings.ts";
import { parseCommand } from "../cli/parse-command.ts";
import { separateWords } from "../cli/separate-words.ts";
import { stopRequest } from "../cli/stop-request.ts";

const usage = `Usage: kip prices refresh FILE [options]

Reads the instance types of an AWS region and their on-demand, dedicated and spot prices, and writes
them into FILE. Other regions in the file stay. kip and kip price read such a file by their option
--instance-data-path; kip reads it when it starts. Needs AWS credentials with the rights that
kip iam print --prices prints.

Example: kip prices refresh prices.json --region=eu-central-1`;

const options: readonly Option[] = [
  {
    flag: "region",
    type: "list",
    help: "region to read; default AWS_REGION, AWS_DEFAULT_REGION, cloud.aws.region, that of this machine",
  },
  {
    flag: "zone",
    type: "list",
    help: "zone whose spot prices count, of several zones the highest; default all zones of the region",
  },
  {
    flag: "provider-config",
    type: "string",
    help: "provider.yaml, for the region, the keys and the endpoint in its section cloud.aws",
  },
  { flag: "help", type: "boolean", help: "show this text" },
];

/** Runs `kip prices`. */
export async function pricesCommand(args: readonly string[]): Promise<void> {
  const { words, flags } = separateWords(args);
  const values = parseCommand(usage, options, flags);
  if (!values) return;
  const [action, file, ...more] = words;
  if (action !== "refresh" || file === undefined || more.length > 0)
    throw new OptionError("OPTION_MISSING", "Cannot read prices: write kip prices refresh FILE", {
      remedy: "See kip prices --help",
    });
  await refresh(path.resolve(file), values);
}

async function refresh(file: string, values: OptionValues): Promise<void> {
  const { signal } = stopRequest();
  const named = values.list("region");
  const zones = values.list("zone");
  const { readRegionPrices } = await import("@kip/cloud-aws/prices");
  const { writePriceFile } = await import("@kip/instance-types");
  for (const region of named.length === 0 ? [undefined] : named) {
    const purpose = "read prices";
    const config = values.text("provider-config");
    const settings = await awsSettings({ region, file: config, purpose });
    const ofRegion = zones.filter((zone) => region === undefined || zone.startsWith(region));
    const found = await readRegionPrices({ ...settings, zones: ofRegion, signal });
    writePriceFile(file, { cloud: "aws", ...found });
    const spot = found.entries.filter(({ spotPrice }) => spotPrice !== undefined).length;
    const what = `${found.entries.length} types of ${found.region}, ${spot} with a spot price`;
    process.stdout.write(`${what}: ${file}\n`);
  }
}

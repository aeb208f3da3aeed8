import { OptionError, type Option } from "@kip/base";
import { catalogClouds, openCatalog } from "@kip/instance-types";
import { parseCommand } from "../cli/parse-command.ts";
import { priceJson } from "./price-json.ts";
import { pricePods, unpricedError } from "./price-pods.ts";
import { priceText } from "./price-text.ts";
import { readManifest } from "./read-manifest.ts";

const usage = `Usage: kip price -f FILE [--cloud aws|gce|azure] [--region REGION] [options]

Says which machine each pod of a manifest would get, the runner-up, what they cost by the hour and the month, and why.
Reads Pods, and the pods of Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs, CronJobs and Lists. Needs no
cluster and no account: the prices are those of kip's own list. If a pod would get no machine, the command fails after
it has shown the others.

Example: kip price -f pods.yaml --cloud=gce --region=europe-west1`;

/** The region to use if none is named. */
const defaultRegions: Readonly<Record<string, string>> = {
  aws: "us-east-1",
  gce: "us-central1",
  azure: "eastus",
};

const options: readonly Option[] = [
  {
    flag: "filename",
    type: "list",
    help: "manifest, YAML or JSON; - is standard input; also -f",
  },
  { flag: "cloud", type: "string", fallback: "aws", help: `cloud: ${catalogClouds.join(", ")}` },
  {
    flag: "region",
    type: "string",
    help: "name of the region; default us-east-1, us-central1 or eastus",
  },
  {
    flag: "default-instance-type",
    type: "string",
    help: "instance type of pods that request nothing, as cells.defaultInstanceType in provider.yaml; default the cheapest",
  },
  {
    flag: "instance-data-path",
    type: "string",
    help: "JSON file with your own instance types and prices (docs/instance-selection.md)",
  },
  { flag: "output", type: "string", fallback: "text", help: "text or json; also -o" },
  { flag: "help", type: "boolean", help: "show this text" },
];

/** Runs `kip price`. */
export function price(args: readonly string[]): void {
  const values = parseCommand(usage, options, withLongFlags(args));
  if (!values) return;
  const output = values.choice("output", ["text", "json"]);
  const files = values.list("filename");
  if (files.length === 0)
    throw new OptionError("OPTION_MISSING", "Cannot price: no manifest is given", {
      remedy: "Write kip price -f pods.yaml",
    });
  const cloud = values.required("cloud");
  const priceFile = values.text("instance-data-path");
  const region = values.text("region") ?? defaultRegions[cloud] ?? "";
  const catalog = openCatalog(cloud, region, { priceFile });
  const pods = files.flatMap((file) => readManifest(file));
  const prices = pricePods(pods, catalog, values.text("default-instance-type"));
  const text =
    output === "json"
      ? JSON.stringify(priceJson(catalog, prices), undefined, 2)
      : priceText(catalog, prices);
  if (prices.priced.length > 0) process.stdout.write(`${text}\n`);
  const error = unpricedError(prices.unpriced);
  if (error) throw error;
}

/** Expands kubectl's short flags `-f` and `-o`. `-` is a file, not a flag. */
function withLongFlags(args: readonly string[]): readonly string[] {
  const long: Readonly<Record<string, string>> = { "-f": "--filename", "-o": "--output" };
  const joined: string[] = [];
  for (let i = 0; i < args.length; i++) {
    const arg = args[i] ?? "";
    const flag = long[arg] ?? (arg === "--filename" ? arg : undefined);
    const next = args[i + 1];
    const hasValue =
      flag !== undefined && next !== undefined && (next === "-" || !next.startsWith("-"));
    joined.push(hasValue ? `${flag}=${args[++i]}` : (flag ?? arg));
  }
  return joined;
}

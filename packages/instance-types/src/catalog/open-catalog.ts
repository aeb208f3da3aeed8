import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { nearest } from "@kip/base";
import { InstanceTypeError } from "../errors.ts";
import type { CustomFamily, OfferedInstanceType } from "../offered-instance-type.ts";
import { podMemoryBytes } from "../overhead.ts";
import { readPriceFile, withPrices } from "../prices/price-file.ts";
import { withAttachedGpus } from "./attached-gpus.ts";
import { dataFolder, readCloudFacts } from "./cloud-facts.ts";
import { customFamilies } from "./custom-families.ts";
import { readTypeRow, type TypeRow } from "./type-rows.ts";

/** The types and prices of one region. */
export interface Catalog {
  readonly cloud: string;
  readonly region: string;
  /** Date of the built-in list's on-demand prices, `YYYY-MM-DD`. Undefined if all prices come from a file. */
  readonly pricesOf: string | undefined;
  /** The file that changed the prices. @default none */
  readonly priceFile?: string | undefined;
  /** Whether spot prices are estimated from the cloud's average savings, instead of today's prices. */
  readonly isSpotEstimated: boolean;
  readonly types: readonly OfferedInstanceType[];
  readonly families: readonly CustomFamily[];
}

/** The clouds in the built-in list. */
export const catalogClouds: readonly string[] = ["aws", "azure", "gce"];

/**
 * US dollars per hour for a core above the baseline, by family. EC2 has the same rate in all regions outside China.
 *
 * @see https://aws.amazon.com/ec2/pricing/on-demand/#T2.2FT3.2FT4g_Unlimited_Mode_Pricing
 */
const burstPrices: Readonly<Record<string, number>> = { t2: 0.05, t3: 0.05, t3a: 0.05, t4g: 0.04 };

/** The regions of a cloud. @throws {InstanceTypeError} `CATALOG_UNKNOWN` */
export function catalogRegions(cloud: string): readonly string[] {
  if (!catalogClouds.includes(cloud)) {
    const near = nearest(cloud, catalogClouds);
    const remedy =
      near === undefined ? `It has ${catalogClouds.join(", ")}` : `Did you mean ${near}?`;
    throw unknown("cloud", cloud, remedy);
  }
  const files = readdirSync(path.join(dataFolder, cloud, "regions"));
  return files.map((file) => path.basename(file, ".tsv")).sort();
}

/** Options of {@link openCatalog}. */
export interface OpenCatalogOptions {
  /** A file with your own prices, see docs/instance-selection.md. @default none */
  readonly priceFile?: string | undefined;
}

/**
 * Reads the types and prices of one region from two files. Nothing is cached.
 *
 * @param region name in the cloud's API; or a zone of GCE, the display name of an Azure location ("East US"), or a region that
 * only the price file has
 * @throws {InstanceTypeError} `CATALOG_UNKNOWN` for an unknown cloud or region, `PRICE_FILE_INVALID`
 */
export function openCatalog(
  cloud: string,
  region: string,
  { priceFile }: OpenCatalogOptions = {},
): Catalog {
  const name = findRegion(cloud, region);
  if (priceFile === undefined) {
    if (name === undefined) throw unknownRegion(cloud, region);
    const list = readCatalog(cloud, name);
    return { ...list, types: withDedicated(cloud, list.types) };
  }
  const prices = readPriceFile(priceFile, [region, ...(name === undefined ? [] : [name])]);
  const { isWhole } = prices;
  const list = name === undefined ? withoutPrices(cloud, region) : readCatalog(cloud, name);
  const { types, families } = withPrices(list, prices);
  return {
    ...list,
    types: withDedicated(cloud, types.filter(isOnOffer)),
    families,
    isSpotEstimated: !isWhole && list.isSpotEstimated,
    pricesOf: isWhole ? undefined : list.pricesOf,
    priceFile,
  };
}

function isOnOffer({ pricePerHour }: OfferedInstanceType): boolean {
  return Object.keys(pricePerHour).length > 0;
}

/**
 * The types of a region for which the built-in list has no prices. Their other facts apply to the types that a price file
 * names.
 */
function withoutPrices(cloud: string, region: string): Catalog {
  const types = builtInTypes(cloud);
  return { cloud, region, pricesOf: undefined, isSpotEstimated: false, types, families: [] };
}

/** The built-in facts about each type of a cloud, for all regions, without prices. */
export function builtInTypes(cloud: string): readonly OfferedInstanceType[] {
  const prefix = readCloudFacts(cloud).typePrefix ?? "";
  return dataLines(path.join(dataFolder, cloud, "types.tsv")).map((line) =>
    offered(readTypeRow(line, prefix), {}, cloud),
  );
}

/**
 * Adds prices for dedicated tenancy to EC2's types. The list does not have them: the price is the on-demand price, unless a
 * price file sets another one. 0 removes it from the offer. Of the burstable types, only T3 supports dedicated tenancy.
 */
function withDedicated(
  cloud: string,
  types: readonly OfferedInstanceType[],
): readonly OfferedInstanceType[] {
  if (cloud !== "aws") return types;
  return types.map((type) => {
    const { dedicated = type.pricePerHour["on-demand"] ?? 0, ...others } = type.pricePerHour;
    const isSold = dedicated > 0 && !/^t(1|2|3a|4g)\./.test(type.name);
    return { ...type, pricePerHour: { ...others, ...(isSold && { dedicated }) } };
  });
}

function readCatalog(cloud: string, name: string): Catalog {
  const facts = readCloudFacts(cloud);
  const prefix = facts.typePrefix ?? "";
  const { prices, date } = readPrices(path.join(dataFolder, cloud, "regions", `${name}.tsv`));
  const types: OfferedInstanceType[] = [];
  for (const line of dataLines(path.join(dataFolder, cloud, "types.tsv"))) {
    const pricePerHour = prices.get(line.slice(0, line.indexOf("\t")));
    if (!pricePerHour) continue;
    const row = readTypeRow(line, prefix);
    const type = offered(row, pricePerHour, cloud);
    types.push(type);
    if (row.takesGpus) types.push(...withAttachedGpus(type, facts, name));
  }
  return {
    cloud,
    region: name,
    pricesOf: date,
    isSpotEstimated: facts.spotEstimated,
    types,
    families: customFamilies(facts, name),
  };
}

/** The region in the list for a name, if there is one. */
function findRegion(cloud: string, region: string): string | undefined {
  const name = region.toLowerCase().replaceAll(" ", "");
  const ofZone = cloud === "gce" ? name.replace(/-[a-z]$/, "") : name;
  return catalogRegions(cloud).find((each) => each === ofZone);
}

function unknownRegion(cloud: string, region: string): InstanceTypeError {
  const known = catalogRegions(cloud);
  const near = nearest(region, known);
  const first = near === undefined ? `It has ${known.join(", ")}.` : `Did you mean ${near}?`;
  return unknown(
    `region of ${cloud}`,
    region,
    `${first} For another region, give --instance-data-path with a file of its prices (docs/instance-selection.md)`,
  );
}

function unknown(what: string, name: string, remedy: string): InstanceTypeError {
  return new InstanceTypeError(
    "CATALOG_UNKNOWN",
    `Cannot find prices: the built-in list has no ${what} "${name.slice(0, 64)}"`,
    { remedy },
  );
}

type Prices = OfferedInstanceType["pricePerHour"];

function readPrices(file: string): {
  readonly prices: ReadonlyMap<string, Prices>;
  readonly date: string;
} {
  const prices = new Map<string, Prices>();
  let date = "";
  for (const line of dataLines(file)) {
    const [name = "", first = "", spot] = line.split("\t");
    if (name === "#date") date = first;
    else
      prices.set(name, {
        "on-demand": Number(first),
        ...(spot !== undefined && { spot: Number(spot) }),
      });
  }
  return { prices, date };
}

/** The lines of one of our data files, without the header. */
function dataLines(file: string): readonly string[] {
  const [, ...lines] = readFileSync(file, "utf8").trimEnd().split("\n");
  return lines;
}

function offered(row: TypeRow, pricePerHour: Prices, cloud: string): OfferedInstanceType {
  const { baselineCpus } = row;
  const family = row.name.slice(0, Math.max(0, row.name.indexOf(".")));
  return {
    name: row.name,
    cpuMilli: row.cpus * 1000,
    memoryBytes: podMemoryBytes(row.memoryBytes),
    gpus: row.gpus,
    pricePerHour,
    architecture: row.architecture,
    gpuModel: row.gpuModel,
    burst:
      baselineCpus === undefined
        ? undefined
        : {
            baselineCpuMilli: Math.round(baselineCpus * 1000),
            pricePerCpuHour: cloud === "aws" ? burstPrices[family] : undefined,
            // EC2 does not offer T3 in unlimited mode as dedicated instances or on dedicated hosts.
            ...(cloud === "aws" && family === "t3" && { cappedFor: ["dedicated"] }),
          },
    localDiskBytes: row.localDiskBytes,
    onlyIfNamed: row.onlyIfNamed,
  };
}

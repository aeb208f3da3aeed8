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
  /** Day of the on-demand prices of the built-in list, `YYYY-MM-DD`; undefined: all are a file's. */
  readonly pricesOf: string | undefined;
  /** The file that changed them. @default none */
  readonly priceFile?: string | undefined;
  /** Spot prices are what the cloud's savings were on average, not what is asked today. */
  readonly isSpotEstimated: boolean;
  readonly types: readonly OfferedInstanceType[];
  readonly families: readonly CustomFamily[];
}

/** The clouds of the built-in list. */
export const catalogClouds: readonly string[] = ["aws", "azure", "gce"];

/**
 * US dollars for an hour of a core above the baseline, by family. EC2 has one rate in all regions outside China.
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
  /** A file with prices of one's own, see docs/instance-selection.md. @default none */
  readonly priceFile?: string | undefined;
}

/**
 * Reads the types and prices of one region: two files, of which nothing is kept.
 *
 * @param region name as the cloud's API has it; also a zone of GCE, or the display name of an Azure location ("East US");
 * also one that the price file alone has
 * @throws {InstanceTypeError} `CATALOG_UNKNOWN` for a cloud or region that is not in the list, `PRICE_FILE_INVALID`
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
 * The types of a region that the built-in list has no prices of: what it knows of each type counts for those that a price file
 * names.
 */
function withoutPrices(cloud: string, region: string): Catalog {
  const types = builtInTypes(cloud);
  return { cloud, region, pricesOf: undefined, isSpotEstimated: false, types, families: [] };
}

/** What the built-in list knows of each type of a cloud, whatever region has it; without prices. */
export function builtInTypes(cloud: string): readonly OfferedInstanceType[] {
  const prefix = readCloudFacts(cloud).typePrefix ?? "";
  return dataLines(path.join(dataFolder, cloud, "types.tsv")).map((line) =>
    offered(readTypeRow(line, prefix), {}, cloud),
  );
}

/**
 * EC2's types with a price for dedicated tenancy. The list has none: it is the on-demand price, unless a price file has another
 * one, where 0 takes it from the offer. Of the burstable types T3 alone can be had so.
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

/** The region of the list that a name stands for, if there is one. */
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

/** Lines of one of our own files, without the names of the columns. */
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
            // EC2 takes T3 in unlimited mode neither as dedicated instances nor on hosts.
            ...(cloud === "aws" && family === "t3" && { cappedFor: ["dedicated"] }),
          },
    localDiskBytes: row.localDiskBytes,
    onlyIfNamed: row.onlyIfNamed,
  };
}

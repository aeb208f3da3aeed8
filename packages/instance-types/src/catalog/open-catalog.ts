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
  if (!catalogClouds.includes(cloud)) throw unknown("cloud", cloud, catalogClouds);
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
  if (priceFile === undefined) return readCatalog(cloud, regionName(cloud, region));
  const name = findRegion(cloud, region);
  const prices = readPriceFile(priceFile, [region, ...(name === undefined ? [] : [name])]);
  const { isWhole } = prices;
  const list =
    name === undefined && isWhole
      ? { cloud, region, isSpotEstimated: false, types: [], families: [] }
      : readCatalog(cloud, name ?? regionName(cloud, region));
  const { pricesOf } = { pricesOf: undefined, ...list };
  return {
    ...list,
    ...withPrices(list, prices),
    isSpotEstimated: !isWhole && list.isSpotEstimated,
    pricesOf: isWhole ? undefined : pricesOf,
    priceFile,
  };
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

function regionName(cloud: string, region: string): string {
  const name = findRegion(cloud, region);
  if (name !== undefined) return name;
  throw unknown(`region of ${cloud}`, region, catalogRegions(cloud));
}

/** The region of the list that a name stands for, if there is one. */
function findRegion(cloud: string, region: string): string | undefined {
  const name = region.toLowerCase().replaceAll(" ", "");
  const ofZone = cloud === "gce" ? name.replace(/-[a-z]$/, "") : name;
  return catalogRegions(cloud).find((each) => each === ofZone);
}

function unknown(what: string, name: string, known: readonly string[]): InstanceTypeError {
  const near = nearest(name, known);
  return new InstanceTypeError(
    "CATALOG_UNKNOWN",
    `Cannot find prices: the built-in list has no ${what} "${name.slice(0, 64)}"`,
    { remedy: near === undefined ? `It has ${known.join(", ")}` : `Did you mean ${near}?` },
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
          },
    localDiskBytes: row.localDiskBytes,
    onlyIfNamed: row.onlyIfNamed,
  };
}

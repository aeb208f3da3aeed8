import { readFileSync, statSync } from "node:fs";
import { decode, DecodeError, errorText, isSystemError, nearest } from "@kip/base";
import { InstanceTypeError } from "../errors.ts";
import type { CustomFamily, GpuModel, OfferedInstanceType } from "../offered-instance-type.ts";
import { podMemoryBytes } from "../overhead.ts";

const {
  between,
  boolean,
  integer,
  list,
  map,
  number,
  object,
  oneOf,
  optional,
  string,
  unknownValue,
} = decode;
const strict = { unknownKeys: "reject" } as const;

/** Maximum size of a file, bytes. The original's lists for a whole cloud have 2 MB. */
const maxBytes = 32 * 1024 ** 2;
const price = between(number, 0, 1_000_000);

const decodeRegions = map(unknownValue);

/** An entry of a list, in the original Kip's format: size and price of one type. */
const decodeType = object(
  {
    instanceType: string,
    price,
    spotPrice: optional(price),
    dedicatedPrice: optional(price),
    cpu: between(number, 0.001, 10_000),
    memory: between(number, 0.001, 1_000_000),
    gpu: optional(between(integer, 0, 1000)),
    supportedGPUTypes: optional(map(integer)),
    burstable: optional(boolean),
    baseline: optional(price),
    generation: optional(unknownValue),
    architecture: optional(oneOf("amd64", "arm64")),
  },
  strict,
);
const decodeList = list(decodeType);

/** An entry of a region's list. */
export type PriceEntry = decode.Decoded<typeof decodeType>;

/** Prices of a type, or of a family of custom sizes, that replace those of the built-in list. */
const decodePrices = map(
  optional(
    object(
      {
        price: optional(price),
        spotPrice: optional(price),
        dedicatedPrice: optional(price),
        pricePerCPU: optional(price),
        pricePerGBOfMemory: optional(price),
      },
      strict,
    ),
  ),
);

/** Types and prices of one region, with the changes of a file. */
export interface PricedTypes {
  readonly types: readonly OfferedInstanceType[];
  readonly families: readonly CustomFamily[];
}

/** The entries of a price file for one region. */
export interface RegionPrices {
  readonly file: string;
  /** The region's key in the file. */
  readonly region: string;
  readonly content: unknown;
  /** Whether they replace all types of the region. */
  readonly isWhole: boolean;
}

/**
 * Reads a file's entries for a region. A list replaces all of its types, as in the original Kip. An object replaces single
 * prices.
 *
 * @param names names of the region; the first one that the file contains is used
 * @throws {InstanceTypeError} `PRICE_FILE_INVALID`, also if the file does not have the region
 */
export function readPriceFile(file: string, names: readonly string[]): RegionPrices {
  const regions = readRegions(file);
  const name = names.find((each) => Object.hasOwn(regions, each));
  if (name !== undefined) {
    const content = regions[name];
    return { file, region: name, content, isWhole: Array.isArray(content) };
  }
  const known = Object.keys(regions);
  const near = nearest(names[0] ?? "", known);
  throw invalid(file, `it has no region "${names[0] ?? ""}"`, {
    remedy:
      near === undefined ? `It has ${known.slice(0, 20).join(", ")}` : `It has ${near}: correct it`,
  });
}

/** The entries of a file by region, not decoded. @throws {InstanceTypeError} `PRICE_FILE_INVALID` */
export function readRegions(file: string): Readonly<Record<string, unknown>> {
  try {
    if (statSync(file).size > maxBytes) throw new RangeError("it is larger than 32 MiB");
    return decodeRegions(JSON.parse(readFileSync(file, "utf8")), "");
  } catch (cause) {
    const isAbsent = isSystemError(cause, "ENOENT");
    throw invalid(file, isAbsent ? "there is no such file" : wordsOf(cause), {
      cause,
      remedy: "Give a JSON file whose keys are regions",
    });
  }
}

/** The parser's message quotes the file, so it is left out. */
function wordsOf(cause: unknown): string {
  return cause instanceof SyntaxError ? "it is not valid JSON" : errorText(cause);
}

/**
 * Applies a price file to the types and families of its region.
 *
 * @throws {InstanceTypeError} `PRICE_FILE_INVALID` for a type without a price in the list, or an unknown key
 */
export function withPrices(known: PricedTypes, prices: RegionPrices): PricedTypes {
  const { file, region, content, isWhole } = prices;
  try {
    return isWhole ? replaced(known, decodeList(content, region)) : changed(known, prices);
  } catch (cause) {
    if (!DecodeError.is(cause)) throw cause;
    throw invalid(file, errorText(cause), { remedy: cause.remedy ?? "Correct the field" });
  }
}

function replaced(known: PricedTypes, entries: decode.Decoded<typeof decodeList>): PricedTypes {
  const byName = new Map(known.types.map((type) => [type.name, type]));
  const types = entries
    .filter((entry) => entry.price > 0 || (entry.spotPrice ?? 0) > 0)
    .map((entry) => typeOf(entry, byName.get(entry.instanceType)));
  return { types, families: known.families };
}

/** Facts that the file does not give, such as architecture, generation and GPU model, come from the built-in list. */
function typeOf(
  entry: decode.Decoded<typeof decodeType>,
  known: OfferedInstanceType | undefined,
): OfferedInstanceType {
  const { gpu = 0, burstable = false, baseline } = entry;
  const [kind] = Object.keys(entry.supportedGPUTypes ?? {});
  const model: GpuModel | undefined =
    kind === undefined || gpu === 0
      ? undefined
      : { manufacturer: "nvidia", name: kind.toLowerCase(), memoryBytes: 0 };
  const baselineCpuMilli = Math.round((baseline ?? entry.cpu) * 1000);
  return {
    ...known,
    name: entry.instanceType,
    cpuMilli: Math.round(entry.cpu * 1000),
    memoryBytes: podMemoryBytes(entry.memory * 2 ** 30),
    gpus: gpu,
    gpuModel: known?.gpuModel ?? model,
    architecture: known?.architecture ?? entry.architecture,
    burst: known?.burst ?? (burstable ? { baselineCpuMilli } : undefined),
    pricePerHour: pricesOf(entry),
  };
}

function changed(known: PricedTypes, { file, region, content }: RegionPrices): PricedTypes {
  const left = new Map(Object.entries(decodePrices(content, region)));
  const types = known.types.flatMap((type) => {
    if (!left.has(type.name)) return [type];
    const entry = left.get(type.name);
    left.delete(type.name);
    return entry ? [{ ...type, pricePerHour: pricesOf(entry) }] : [];
  });
  const families = known.families.flatMap((family) => {
    const key = `${family.name}-custom`;
    if (!left.has(key)) return [family];
    const entry = left.get(key);
    left.delete(key);
    const { pricePerCPU: perCpu, pricePerGBOfMemory: perGiB } = entry ?? {};
    if (perCpu === undefined || perGiB === undefined) return [];
    return [{ ...family, pricePerHour: { "on-demand": { perCpu, perGiB } } }];
  });
  const [unknown] = left.keys();
  if (unknown === undefined) return { types, families };
  const near = nearest(
    unknown,
    known.types.map(({ name }) => name),
  );
  throw invalid(file, `the region has no type "${unknown.slice(0, 64)}"`, {
    remedy:
      near === undefined
        ? "Correct the name; a list of types in the place of this object can have types of its own"
        : `Did you mean ${near}?`,
  });
}

/**
 * As in the original, a price of 0 means that the type is not on offer. The 0 is only kept for dedicated tenancy, where a
 * missing price has a default.
 */
function pricesOf(entry: {
  readonly price?: number | undefined;
  readonly spotPrice?: number | undefined;
  readonly dedicatedPrice?: number | undefined;
}): OfferedInstanceType["pricePerHour"] {
  return {
    ...((entry.price ?? 0) > 0 && { "on-demand": entry.price }),
    ...((entry.spotPrice ?? 0) > 0 && { spot: entry.spotPrice }),
    ...(entry.dedicatedPrice !== undefined && { dedicated: entry.dedicatedPrice }),
  };
}

function invalid(
  file: string,
  reason: string,
  options: { readonly remedy: string; readonly cause?: unknown },
): InstanceTypeError {
  return new InstanceTypeError(
    "PRICE_FILE_INVALID",
    `Cannot use prices of ${file}: ${reason}`,
    options,
  );
}

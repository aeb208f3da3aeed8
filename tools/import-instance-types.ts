// Writes packages/instance-types/data from JSON documents of the clouds' types and prices, whose form
// packages/instance-types/data/README.md describes.
//   node tools/import-instance-types.ts aws.json gce.json azure.json
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { decode } from "@kip/base";

const { boolean, integer, list, map, number, object, optional, string, unknownValue } = decode;

const decodeGpu = object({
  name: string,
  manufacturer: string,
  count: integer,
  memoryMiB: optional(integer),
  fraction: optional(number),
  acceleratorType: optional(string),
});

const decodeType = object({
  vcpu: integer,
  memoryMiB: integer,
  arch: list(string),
  gpus: list(decodeGpu),
  accelerators: optional(list(decodeGpu)),
  baselineVcpu: optional(number),
  bareMetal: boolean,
  currentGeneration: optional(boolean),
  localStorageGB: optional(integer),
  flex: optional(boolean),
  confidential: optional(boolean),
  specFrom: optional(string),
  attachableGpus: optional(map(integer)),
});

const decodeDocument = object({
  cloud: string,
  generated: string,
  spotEstimated: optional(boolean),
  priceDates: optional(map(string)),
  types: map(decodeType),
  prices: map(map(object({ onDemand: number, spot: optional(number) }))),
  customFamilies: optional(
    map(
      object({
        vcpus: list(integer),
        minGiBPerVcpu: number,
        maxGiBPerVcpu: number,
        memoryStepGiB: number,
      }),
    ),
  ),
  customPrices: optional(unknownValue),
  customPricesAsOf: optional(string),
  attachableGpuPrices: optional(unknownValue),
});

type SourceDocument = decode.Decoded<typeof decodeDocument>;
type SourceType = decode.Decoded<typeof decodeType>;

/** The common prefix of all type names of a cloud, which the files omit. */
const prefixes: Readonly<Record<string, string>> = { azure: "Standard_" };

const dataFolder = path.join(import.meta.dirname, "../packages/instance-types/data");

for (const file of process.argv.slice(2)) {
  const source = decodeDocument(JSON.parse(readFileSync(file, "utf8")), "");
  const folder = path.join(dataFolder, source.cloud);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(path.join(folder, "regions"), { recursive: true });
  writeFileSync(
    path.join(folder, "cloud.json"),
    `${JSON.stringify(cloudFacts(source), null, 1)}\n`,
  );
  writeFileSync(path.join(folder, "types.tsv"), typesFile(source));
  for (const [region, prices] of Object.entries(source.prices)) {
    const rows = Object.entries(prices)
      .sort(byName)
      .map(([name, { onDemand, spot }]) => [shortName(source, name), onDemand, spot].join("\t"))
      .map((row) => row.trimEnd());
    const date = source.priceDates?.[region] ?? source.generated;
    writeFileSync(
      path.join(folder, "regions", `${region}.tsv`),
      `${["type\tonDemand\tspot", `#date\t${date}`, ...rows].join("\n")}\n`,
    );
  }
}

function cloudFacts(source: SourceDocument): object {
  const { cloud, spotEstimated, attachableGpuPrices } = source;
  const { customPrices, customPricesAsOf } = source;
  const attachable = Object.values(source.types).find((type) => type.attachableGpus !== undefined);
  return {
    cloud,
    typePrefix: prefixes[cloud],
    spotEstimated: spotEstimated ?? false,
    customFamilies: source.customFamilies && customFamilies(source.customFamilies),
    customPricesAsOf,
    customPrices,
    attachableGpuCounts: attachable?.attachableGpus,
    attachableGpuPrices,
  };
}

/**
 * N2 allows even numbers of vCPUs up to 32, and multiples of 4 above.
 *
 * @see https://cloud.google.com/compute/docs/samples/compute-custom-machine-type-helper-class
 */
function customFamilies(families: NonNullable<SourceDocument["customFamilies"]>): object {
  const { n2, ...others } = families;
  if (!n2) return others;
  return { ...others, n2: { ...n2, vcpus: n2.vcpus.filter((n) => n <= 32 || n % 4 === 0) } };
}

function shortName({ cloud }: SourceDocument, name: string): string {
  const prefix = prefixes[cloud] ?? "";
  if (!name.startsWith(prefix))
    throw new Error(`Cannot write type "${name}": "${prefix}" is expected before it`);
  return name.slice(prefix.length);
}

function typesFile(source: SourceDocument): string {
  const columns = "type\tvcpu\tmemoryMiB\tarch\tbaselineVcpu\tlocalStorageGB\tgpus\tmarks";
  // A type without a price in any region cannot be chosen.
  const priced = new Set(Object.values(source.prices).flatMap((prices) => Object.keys(prices)));
  const rows = Object.entries(source.types)
    .filter(([name]) => priced.has(name))
    .sort(byName)
    .map(([name, type]) => typeRow(shortName(source, name), type));
  return `${[columns, ...rows].join("\n")}\n`;
}

function typeRow(name: string, type: SourceType): string {
  const gpus = type.gpus.map((gpu) =>
    [
      gpu.manufacturer,
      gpu.name,
      gpu.count,
      gpu.memoryMiB,
      gpu.fraction ?? "",
      gpu.acceleratorType ?? "",
    ]
      .join(":")
      .replace(/:+$/, ""),
  );
  const marks = [
    ...(type.currentGeneration === false ? ["previous"] : []),
    ...(type.bareMetal ? ["metal"] : []),
    ...(type.flex === true ? ["flex"] : []),
    ...(type.confidential === true ? ["confidential"] : []),
    ...(type.attachableGpus === undefined ? [] : ["attach"]),
    ...(type.accelerators ?? []).map((each) => `accelerator=${each.name}:${each.count}`),
    ...(type.specFrom === undefined ? [] : [`spec=${type.specFrom}`]),
  ];
  const { vcpu, memoryMiB, arch, baselineVcpu = "", localStorageGB = "" } = type;
  const cells = [name, vcpu, memoryMiB, arch.join(","), baselineVcpu, localStorageGB];
  return [...cells, gpus.join(","), marks.join(",")].join("\t").trimEnd();
}

function byName([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number {
  return a < b ? -1 : 1;
}

import { readFileSync } from "node:fs";
import path from "node:path";
import { decode } from "@kip/base";

const { boolean, integer, list, map, number, object, optional, string } = decode;

/** Folder of the built-in types and prices. */
export const dataFolder = path.join(import.meta.dirname, "../../data");

const decodeFacts = object({
  cloud: string,
  typePrefix: optional(string),
  spotEstimated: boolean,
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
  customPrices: optional(map(map(object({ pricePerVcpu: number, pricePerGiB: number })))),
  attachableGpuCounts: optional(map(integer)),
  attachableGpuPrices: optional(
    map(
      object({
        name: string,
        manufacturer: string,
        memoryMiB: integer,
        onDemandUsCentral1: number,
        spotUsCentral1: number,
        regions: list(string),
      }),
    ),
  ),
});

/** Facts that apply to all types of a cloud. */
export type CloudFacts = decode.Decoded<typeof decodeFacts>;

/** Reads the facts about a cloud. Its folder has to exist. */
export function readCloudFacts(cloud: string): CloudFacts {
  const file = path.join(dataFolder, cloud, "cloud.json");
  return decodeFacts(JSON.parse(readFileSync(file, "utf8")), file);
}

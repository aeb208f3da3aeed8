import { renameSync, rmSync, writeFileSync } from "node:fs";
import { isSystemError } from "@kip/base";
import { openCatalog } from "./open-catalog.ts";
import { InstanceTypeError } from "../errors.ts";
import { readRegions, type PriceEntry } from "../prices/price-file.ts";

/**
 * Writes the list of a region's types to a price file. It replaces the file's entries for that region, and keeps those of other
 * regions. Creates the file if it is missing. The file is replaced atomically.
 *
 * @throws {InstanceTypeError} `PRICE_FILE_INVALID` if the file has another format, or would have with these entries
 * @throws errors of the file system
 */
export function writePriceFile(
  file: string,
  update: {
    readonly cloud: string;
    readonly region: string;
    readonly entries: readonly PriceEntry[];
  },
): void {
  const { cloud, region, entries } = update;
  const others = existing(file);
  const regions = Object.entries({ ...others, [region]: entries }).map(
    ([name, content]) => `${JSON.stringify(name)}: ${contentText(content)}`,
  );
  const next = `${file}.new`;
  try {
    writeFileSync(next, `{\n${regions.join(",\n")}\n}\n`);
    openCatalog(cloud, region, { priceFile: next });
    renameSync(next, file);
  } catch (error) {
    rmSync(next, { force: true });
    throw error;
  }
}

function existing(file: string): Readonly<Record<string, unknown>> {
  try {
    return readRegions(file);
  } catch (error) {
    if (InstanceTypeError.is(error) && isSystemError(error.cause, "ENOENT")) return {};
    throw error;
  }
}

/** One line per type, so that people can compare files of different days. */
function contentText(content: unknown): string {
  if (!Array.isArray(content)) return JSON.stringify(content);
  return `[\n${content.map((each) => `  ${JSON.stringify(each)}`).join(",\n")}\n]`;
}

import { OptionError, type OptionValues } from "@kip/base";
import type { Architecture } from "@kip/cloud";
import { hostArchitecture } from "@kip/cloud-local";

/**
 * Processors that cells have, that of this computer first.
 *
 * @throws {OptionError} `OPTION_INVALID`
 */
export function architectures(options: OptionValues): readonly Architecture[] {
  return [...new Set([hostArchitecture, ...options.list("architecture").map(readArchitecture)])];
}

/** @throws {OptionError} `OPTION_INVALID` */
export function readArchitecture(text: string): Architecture {
  if (text === "amd64" || text === "arm64") return text;
  throw new OptionError("OPTION_INVALID", `Cannot make an image for the processor "${text}"`, {
    remedy: "Use --architecture=amd64 or --architecture=arm64",
  });
}

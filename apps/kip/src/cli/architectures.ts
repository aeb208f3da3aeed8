import { hostArchitecture, OptionError, type OptionValues } from "@kip/base";
import type { Architecture } from "@kip/cloud";
import { isEc2 } from "../local/cluster/cloud-choice.ts";

/**
 * The architectures of the cells of `kip up`. The first is this computer's.
 *
 * @throws {OptionError} `OPTION_INVALID`
 */
export function architectures(options: OptionValues): readonly Architecture[] {
  const wanted = options.list("architecture").map(readArchitecture);
  const others = [...new Set(wanted)].filter((each) => each !== hostArchitecture);
  if (others.length > 0 && isEc2(options))
    throw new OptionError(
      "OPTION_INVALID",
      `Cannot have cells with ${others.join(", ")} and --cloud=ec2-local`,
      { remedy: "Leave out --architecture or --cloud" },
    );
  return [hostArchitecture, ...others];
}

/** @throws {OptionError} `OPTION_INVALID` */
export function readArchitecture(text: string): Architecture {
  if (text === "amd64" || text === "arm64") return text;
  throw new OptionError("OPTION_INVALID", `Cannot make an image for the processor "${text}"`, {
    remedy: "Use --architecture=amd64 or --architecture=arm64",
  });
}

import { isIPv4 } from "node:net";
import { OptionError, type OptionValues } from "@kip/base";

/**
 * The addresses of this computer at which NodePorts answer, from `--nodeport-address`. By default only programs of this
 * computer reach them, because a try-out cluster should not serve every network that a laptop joins.
 *
 * @throws {OptionError} `OPTION_INVALID`
 */
export function nodePortAddresses(options: OptionValues): readonly string[] {
  const given = options.list("nodeport-address");
  for (const text of given) {
    if (isIPv4(text)) continue;
    throw new OptionError(
      "OPTION_INVALID",
      `Cannot use --nodeport-address ${text}: it is not an IPv4 address`,
      { remedy: "Give an address of this computer, or 0.0.0.0 for all of them" },
    );
  }
  return given.length === 0 ? ["127.0.0.1"] : given;
}

import { isIPv4 } from "node:net";
import { OptionError, type OptionValues } from "@kip/base";

/**
 * Where NodePorts of Services answer on this computer, of `--nodeport-address`. Without it only programs of this computer reach
 * them: a Service of a cluster to try things out is not meant for every network that a laptop is taken to.
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

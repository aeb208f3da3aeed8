import { isIPv4 } from "node:net";
import { OptionError, type OptionValues } from "@kip/base";

/**
 * Name servers of `--resolver`, for names outside the cluster. Empty if the option is not set.
 *
 * @throws {OptionError} `OPTION_INVALID`
 */
export function resolvers(options: OptionValues): readonly string[] {
  return options.list("resolver").map((text) => {
    const [address = "", port = "53", ...others] = text.split(":");
    const isPort = /^\d{1,5}$/.test(port) && Number(port) >= 1 && Number(port) <= 65_535;
    if (isIPv4(address) && isPort && others.length === 0) return text;
    throw new OptionError("OPTION_INVALID", `Cannot use --resolver ${text}: it is not an address`, {
      remedy: "Give an IPv4 address, or one with a port such as 192.0.2.1:5353",
    });
  });
}

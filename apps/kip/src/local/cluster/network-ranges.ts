import { isIP } from "node:net";
import { OptionError, type OptionValues } from "@kip/base";
import { isEc2 } from "./cloud-choice.ts";
import { serviceRanges } from "./service-range.ts";

/** Address ranges of cells and pods: one of IPv4, and optionally one of IPv6. */
export interface NetworkRanges {
  readonly range: string;
  readonly ipv6Range?: string | undefined;
}

/**
 * Reads the ranges of `--network-range`. The cloud checks each of them.
 *
 * @throws {OptionError} `OPTION_INVALID` if the IP families differ from those of `--service-range`, or if there is a VPC that
 * cannot have the range
 */
export function networkRanges(options: OptionValues): NetworkRanges {
  const text = options.required("network-range");
  const ranges = splitRanges(text);
  if (ranges === undefined) {
    throw new OptionError(
      "OPTION_INVALID",
      `Cannot use --network-range ${text}: it is not one range of IPv4, or one and one of IPv6`,
      { remedy: "Give 198.18.0.0/15, or 198.18.0.0/15,fd6b:6970::/64" },
    );
  }
  if (isEc2(options)) requireVpcRange(text, ranges);
  const hasSecond = serviceRanges(options).length > 1;
  if (hasSecond === (ranges.ipv6Range !== undefined)) return ranges;
  const [which, other] = hasSecond
    ? ["--service-range", "--network-range"]
    : ["--network-range", "--service-range"];
  throw new OptionError(
    "OPTION_INVALID",
    `Cannot use ${which} ${options.required(which.slice(2))}: ${other} has no range of IPv6`,
    { remedy: "Give each of them a range of IPv6, or none" },
  );
}

function requireVpcRange(text: string, { range, ipv6Range }: NetworkRanges): void {
  const prefixLength = Number(range.split("/")[1] ?? 32);
  if (prefixLength >= 16 && ipv6Range === undefined) return;
  const reason = ipv6Range === undefined ? "a VPC has /16 at most" : "its cells have IPv4 alone";
  throw new OptionError(
    "OPTION_INVALID",
    `Cannot use --network-range ${text} with --cloud=ec2-local: ${reason}`,
    { remedy: "Give --network-range=198.18.0.0/16" },
  );
}

/** Splits the option's text into ranges. Undefined if it is not valid. */
export function splitRanges(text: string): NetworkRanges | undefined {
  const [range = "", ipv6Range, ...more] = text.split(",");
  const family = (cidr: string): number => isIP(cidr.split("/", 1)[0] ?? "");
  if (more.length > 0 || family(range) !== 4) return undefined;
  if (ipv6Range !== undefined && family(ipv6Range) !== 6) return undefined;
  return { range, ipv6Range };
}

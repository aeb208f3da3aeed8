import { parseCidr } from "@kip/network-view";

/** EC2 allows 16 groups per interface, one of which is kip's own. */
export const maxSecurityGroups = 15;

/** Parses IDs of firewall groups, without duplicates. Undefined if it is not valid. */
export function readSecurityGroups(text: string): readonly string[] | undefined {
  if (text.length > 4096) return undefined;
  const ids = text
    .split(",")
    .map((each) => each.trim())
    .filter((each) => each !== "");
  const all = [...new Set(ids)];
  return all.length <= maxSecurityGroups && all.every((id) => /^[\w.-]{1,255}$/.test(id))
    ? all
    : undefined;
}

/** Parses the name or ARN of an instance profile, which are distinguished as in the original. Undefined if it is neither. */
export function readInstanceProfile(text: string): string | undefined {
  if (text.length > 1024) return undefined;
  const pattern = text.includes(":")
    ? /^arn:[a-z-]+:iam::\d{12}:instance-profile\/[\x21-\x7e]+$/
    : /^[\w+=,.@-]{1,128}$/;
  return pattern.test(text) ? text : undefined;
}

/** They are stored in one tag of the instance, which has room for this many IPv6 ranges. */
export const maxRoutes = 5;

/**
 * Parses address ranges to canonical form, without duplicates. Undefined if it is not valid. A range of all addresses is
 * refused, because it would redirect every packet of the network.
 */
export function readRoutes(text: string): readonly string[] | undefined {
  if (text.length > 1024) return undefined;
  const words = text.split(/\s+/).filter((word) => word !== "");
  const all = words.map((word) => (word.includes("/") ? parseCidr(word)?.text : undefined));
  const ranges = [...new Set(all.flatMap((each) => each ?? []))];
  const isValid = all.every((each) => each !== undefined && !each.endsWith("/0"));
  return isValid && ranges.length > 0 && ranges.length <= maxRoutes ? ranges : undefined;
}

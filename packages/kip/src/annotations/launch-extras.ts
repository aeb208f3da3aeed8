import { parseCidr } from "@kip/network-view";

/** EC2 has at most 16 groups for an interface, and kip's own is one of them. */
export const mostSecurityGroups = 15;

/** IDs of firewall groups, each once; undefined if it is something else. */
export function readSecurityGroups(text: string): readonly string[] | undefined {
  if (text.length > 4096) return undefined;
  const ids = text
    .split(",")
    .map((each) => each.trim())
    .filter((each) => each !== "");
  const all = [...new Set(ids)];
  return all.length <= mostSecurityGroups && all.every((id) => /^[\w.-]{1,255}$/.test(id))
    ? all
    : undefined;
}

/** The name or the ARN of an instance profile, by which of the two the original also tells them apart; undefined if it is neither. */
export function readInstanceProfile(text: string): string | undefined {
  if (text.length > 1024) return undefined;
  const pattern = text.includes(":")
    ? /^arn:[a-z-]+:iam::\d{12}:instance-profile\/[\x21-\x7e]+$/
    : /^[\w+=,.@-]{1,128}$/;
  return pattern.test(text) ? text : undefined;
}

/** They are in one tag of the instance, which holds so many of IPv6. */
export const mostRoutes = 5;

/**
 * Ranges of addresses, canonical, each once; undefined if it is something else. A range of all addresses is refused: it would take
 * every packet of the network.
 */
export function readRoutes(text: string): readonly string[] | undefined {
  if (text.length > 1024) return undefined;
  const words = text.split(/\s+/).filter((word) => word !== "");
  const all = words.map((word) => (word.includes("/") ? parseCidr(word)?.text : undefined));
  const ranges = [...new Set(all.flatMap((each) => each ?? []))];
  const isValid = all.every((each) => each !== undefined && !each.endsWith("/0"));
  return isValid && ranges.length > 0 && ranges.length <= mostRoutes ? ranges : undefined;
}

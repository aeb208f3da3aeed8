import { outermost, parseCidr } from "@kip/network-view";

/** CIDRs as a set in a rule: one lookup, however many there are. nftables takes no ranges that overlap. */
export function rangeSet(cidrs: readonly string[]): string {
  const ranges = outermost(cidrs.flatMap((text) => parseCidr(text) ?? []));
  return `{ ${ranges.map(({ text }) => text).join(", ")} }`;
}

import { outermost, parseCidr } from "@kip/network-view";

/** CIDRs as an anonymous set for a rule, which needs only one lookup. Overlapping ranges are merged, because nftables rejects them. */
export function rangeSet(cidrs: readonly string[]): string {
  const ranges = outermost(cidrs.flatMap((text) => parseCidr(text) ?? []));
  return `{ ${ranges.map(({ text }) => text).join(", ")} }`;
}

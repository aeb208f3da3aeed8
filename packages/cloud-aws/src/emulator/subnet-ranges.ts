import { childOf, itemsOf, setText, type XmlElement } from "./xml.ts";

/** Changes an answer to DescribeSubnets: moto writes the state of a range of IPv6 as Python writes a dictionary. */
export function showRanges(answer: XmlElement): void {
  for (const subnet of itemsOf(answer, "subnetSet"))
    for (const range of itemsOf(subnet, "ipv6CidrBlockAssociationSet")) {
      const state = childOf(range, "ipv6CidrBlockState");
      if (state) setText(state, "state", "associated");
    }
}

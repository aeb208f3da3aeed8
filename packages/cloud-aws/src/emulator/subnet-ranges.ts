import { childOf, itemsOf, setText, type XmlElement } from "./xml.ts";

/** Changes a response of DescribeSubnets, because moto writes the state of an IPv6 range as a Python dictionary. */
export function showRanges(answer: XmlElement): void {
  for (const subnet of itemsOf(answer, "subnetSet"))
    for (const range of itemsOf(subnet, "ipv6CidrBlockAssociationSet")) {
      const state = childOf(range, "ipv6CidrBlockState");
      if (state) setText(state, "state", "associated");
    }
}

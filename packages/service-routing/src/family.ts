import { textFamily, type IpFamily } from "@kip/network-view";
import type { RoutingPlace } from "./routing-place.ts";

/** How nftables names what differs between the two IP versions. */
export interface Family {
  readonly number: IpFamily;
  /** Family of tables, and the protocol in expressions. */
  readonly ip: "ip" | "ip6";
  /** Type of addresses in sets. */
  readonly type: "ipv4_addr" | "ipv6_addr";
  readonly loopback: string;
}

/** Both families. Each has its own tables, made by the same code. */
export const families: readonly Family[] = [
  { number: 4, ip: "ip", type: "ipv4_addr", loopback: "127.0.0.0/8" },
  { number: 6, ip: "ip6", type: "ipv6_addr", loopback: "::1" },
];

/** The addresses, CIDRs or endpoints of a list that are of the family. */
export function ofFamily(list: readonly string[], { number }: Family): readonly string[] {
  return list.filter((text) => textFamily(text) === number);
}

/**
 * The families that have rules: those of the pod's addresses. No packets of another family are forwarded to the pod or from it, and one
 * family is half the work at the start of a pod. Without a pod, both.
 */
export function familiesOf({ podAddresses }: RoutingPlace): readonly Family[] {
  if (podAddresses.length === 0) return families;
  return families.filter((family) => ofFamily(podAddresses, family).length > 0);
}

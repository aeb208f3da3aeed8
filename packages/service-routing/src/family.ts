import { textFamily, type IpFamily } from "@kip/network-view";
import type { RoutingPlace } from "./routing-place.ts";

/** The names in nftables that differ between the two IP versions. */
export interface Family {
  readonly number: IpFamily;
  /** Family of tables, and the protocol in expressions. */
  readonly ip: "ip" | "ip6";
  /** The nftables type of addresses. */
  readonly type: "ipv4_addr" | "ipv6_addr";
  readonly loopback: string;
}

/** Both families. Each has its own tables, which the same code generates. */
export const families: readonly Family[] = [
  { number: 4, ip: "ip", type: "ipv4_addr", loopback: "127.0.0.0/8" },
  { number: 6, ip: "ip6", type: "ipv6_addr", loopback: "::1" },
];

/** The addresses, CIDRs or endpoints in a list that belong to the family. */
export function ofFamily(list: readonly string[], { number }: Family): readonly string[] {
  return list.filter((text) => textFamily(text) === number);
}

/**
 * The families that get rules: those of the pod's addresses, or both without a pod. Packets of other families are not forwarded to or from the
 * pod, and rules for one family are half the work at the start of a pod.
 */
export function familiesOf({ podAddresses }: RoutingPlace): readonly Family[] {
  if (podAddresses.length === 0) return families;
  return families.filter((family) => ofFamily(podAddresses, family).length > 0);
}

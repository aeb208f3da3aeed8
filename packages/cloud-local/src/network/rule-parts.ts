import { bridgeDevice, uplinkDevice } from "./device-names.ts";

/** nftables' names of the two IP versions. */
type FamilyName = "ip" | "ip6";

/**
 * Refuses packets of machines at once, so that clients need not wait: TCP connections get a reset, and everything else an ICMP
 * error.
 */
export function refuseRules(family: FamilyName, ranges: readonly string[]): string {
  if (ranges.length === 0) return "";
  const match = `iifname "${bridgeDevice}" ${family} daddr { ${ranges.join(", ")} }`;
  const icmp = family === "ip" ? "icmp" : "icmpv6";
  return `
    ${match} meta l4proto tcp reject with tcp reset
    ${match} reject with ${icmp} type admin-prohibited
`;
}

/** The chain that masquerades packets to the uplink. */
export function leaveChain(): string {
  return `
  chain leave {
    type nat hook postrouting priority srcnat;
    oifname "${uplinkDevice}" masquerade
  }
`;
}

/** A match for one of several ports. @param ports at least one */
export function portMatch(field: string, ports: readonly number[]): string {
  return `${field} { ${ports.join(", ")} }`;
}

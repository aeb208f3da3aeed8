import { bridgeDevice, uplinkDevice } from "./device-names.ts";

/** How nftables names the two versions of IP. */
type FamilyName = "ip" | "ip6";

/** Refuses packets of machines: a connection is reset, all else is answered that it is prohibited, so clients need not wait. */
export function refuseRules(family: FamilyName, ranges: readonly string[]): string {
  if (ranges.length === 0) return "";
  const match = `iifname "${bridgeDevice}" ${family} daddr { ${ranges.join(", ")} }`;
  const icmp = family === "ip" ? "icmp" : "icmpv6";
  return `
    ${match} meta l4proto tcp reject with tcp reset
    ${match} reject with ${icmp} type admin-prohibited
`;
}

/** The chain that gives what leaves by the uplink its address. */
export function leaveChain(): string {
  return `
  chain leave {
    type nat hook postrouting priority srcnat;
    oifname "${uplinkDevice}" masquerade
  }
`;
}

/** A match of one of several ports. @param ports at least one */
export function portMatch(field: string, ports: readonly number[]): string {
  return `${field} { ${ports.join(", ")} }`;
}

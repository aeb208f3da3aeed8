import { bridgeDevice, uplinkDevice } from "./device-names.ts";
import { uplinkNetwork, type Ipv6Plan } from "./ipv6-plan.ts";
import { leaveChain, portMatch, refuseRules } from "./rule-parts.ts";

/** Inputs for the IPv6 rules of a local cloud, see `FilterOptions`. */
export interface Ipv6RuleOptions {
  readonly plan: Ipv6Plan;
  readonly hostPorts: readonly number[];
  readonly managementPorts: readonly number[];
  readonly hostAddresses: readonly string[];
  readonly serviceRanges: readonly string[];
  readonly internet: boolean;
}

/**
 * Destinations that no machine can reach through the uplink: unspecified; loopback; representations of IPv4 addresses, to which
 * a socket of the host would connect (RFC 4291, 2.5.5; RFC 2765); 6to4 and Teredo (RFC 3056, 4380); translated link-local
 * addresses (RFC 6052); discarded (RFC 6666); link-local; site-local; multicast.
 */
const closedNetworks = [
  "::/96",
  "::ffff:0:0/96",
  "::ffff:0:0:0/96",
  "64:ff9b::a9fe:0/112",
  "100::/64",
  "2001::/32",
  "2002::/16",
  "fe80::/10",
  "fec0::/10",
  "ff00::/8",
];

/**
 * Metadata services of clouds at addresses that are not link-local.
 *
 * @see https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
 * @see https://cloud.google.com/compute/docs/metadata/querying-metadata
 */
const closedServices = ["fd00:ec2::/32", "fd20:ce::254"];

/**
 * Rules for forwarding IPv6 in the namespace. All IPv6 packets pass here. The namespace is the machines' only neighbour, so no
 * IPv6 packet goes from one port of the bridge to another, and neighbour discovery is not needed.
 */
export function ipv6Rules(options: Ipv6RuleOptions): string {
  const { plan, hostAddresses, internet } = options;
  return `
add table ip6 kip
delete table ip6 kip
table ip6 kip {
  set closed {
    type ipv6_addr
    flags interval
    auto-merge
    elements = { ${closedDestinations(plan, hostAddresses)} }
  }
  chain input {
    type filter hook input priority 0; policy drop;
    iifname != "${bridgeDevice}" accept
    ct state established,related accept
    ip6 daddr ${plan.gateway} icmpv6 type echo-request accept
  }
  ${throughChains(options)}
  ${internet ? leaveChain() : ""}
}
`;
}

function throughChains(options: Ipv6RuleOptions): string {
  const { plan, hostPorts, managementPorts, serviceRanges, internet } = options;
  const onBridge = `iifname "${bridgeDevice}" oifname "${bridgeDevice}"`;
  return `
  chain through {
    type filter hook forward priority 0; policy drop;
    ct state established,related accept
    ${refuseRules("ip6", serviceRanges)}
    ${onBridge} ip6 saddr ${plan.host} accept
    ${onBridge} ip6 daddr ${plan.host} goto to_host
    ${managementPorts.length === 0 ? "" : `${onBridge} ip6 daddr ${plan.machines} ${portMatch("meta l4proto { tcp, udp } th dport", managementPorts)} drop`}
    ${onBridge} ip6 daddr ${plan.range} accept
    ${internet ? `iifname "${bridgeDevice}" oifname "${uplinkDevice}" ip6 daddr != @closed accept` : ""}
    reject with icmpv6 type ${internet ? "admin-prohibited" : "no-route"}
  }
  chain to_host {
    ${hostPorts.length === 0 ? "" : `${portMatch("tcp dport", hostPorts)} accept`}
    icmpv6 type echo-request accept
    drop
  }`;
}

/** Updates the closed destinations after the host's addresses have changed since {@link ipv6Rules}. */
export function replaceClosedIpv6(plan: Ipv6Plan, hostAddresses: readonly string[]): string {
  return `
flush set ip6 kip closed
add element ip6 kip closed { ${closedDestinations(plan, hostAddresses)} }
`;
}

function closedDestinations(plan: Ipv6Plan, hostAddresses: readonly string[]): string {
  const closed = [...closedNetworks, ...closedServices, uplinkNetwork, plan.range];
  return [...closed, ...hostAddresses].join(", ");
}

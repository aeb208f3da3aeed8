import type { AddressPlan } from "./address-plan.ts";
import type { MachinePort } from "./machine-port.ts";
import { bridgeDevice, hostLink, uplinkDevice } from "./device-names.ts";
import { gatewayMac } from "./ipv6-setup.ts";
import { leaveChain, portMatch, refuseRules } from "./rule-parts.ts";

/** Inputs for the rules of a local cloud. */
export interface FilterOptions {
  readonly plan: AddressPlan;
  /** TCP ports of the host that machines can reach. */
  readonly hostPorts: readonly number[];
  /** TCP and UDP ports at machines' own addresses that only the host can reach. */
  readonly managementPorts: readonly number[];
  /** The host's own addresses and prefixes, which must not be reachable through the uplink. */
  readonly hostAddresses: readonly string[];
  /** Ranges of the cluster's Services. Packets that no rule routes to an endpoint are refused at once. */
  readonly serviceRanges: readonly string[];
  /** The ClusterIP of the cluster's DNS server. Queries to it are redirected to `plan.clusterDns`. */
  readonly dnsService?: string | undefined;
  /** Address in the namespace whose TCP port 80 machines can reach. */
  readonly metadataAddress?: string | undefined;
  /** Whether there is an uplink. */
  readonly internet: boolean;
}

/**
 * Destinations that no machine can reach through the uplink: "this network", loopback, link-local (including the metadata
 * services of most clouds), multicast and reserved addresses.
 */
const closedNetworks = ["0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3"];

/**
 * Services for machines of clouds at addresses that are not link-local. This computer may be such a machine, and slirp4netns
 * uses its identity.
 *
 * @see https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16
 * @see https://www.alibabacloud.com/help/en/ecs/user-guide/view-instance-metadata
 * @see https://docs.oracle.com/iaas/Content/Compute/Tasks/gettingmetadata.htm (192.0.0.192 is its former address)
 */
const closedServices = ["168.63.129.16", "100.100.100.200", "192.0.0.192"];

/**
 * Mark of packets that the bridge carries. If br_netfilter was loaded after the network was created (Docker does so), they also
 * pass the forwarding rules, although they are not forwarded.
 */
const bridgedMark = "0x6b6970";

/** Sets with the machines' addresses. They live as long as the table, and new rules do not change them. */
const portSets = `
add table bridge kip
add set bridge kip senders { type ifname . ether_addr . ipv4_addr; }
add set bridge kip senders6 { type ifname . ether_addr . ipv6_addr; }
add set bridge kip receivers { type ifname . ether_addr; }
`;

/** Allows a machine's packets on the bridge. Before that, none of them pass. May be repeated. */
export function openPort(port: MachinePort): string {
  return portSets + portElements("add", port);
}

/** Removes a machine from the rules. May be repeated. */
export function closePort(port: MachinePort): string {
  // Deleting a missing element fails, so one transaction adds and deletes it.
  return portSets + portElements("add", port) + portElements("delete", port);
}

function portElements(verb: "add" | "delete", port: MachinePort): string {
  const { device, mac, addresses, ipv6Addresses } = port;
  const senders = (list: readonly string[]): string =>
    list.map((address) => `"${device}" . ${mac} . ${address}`).join(", ");
  return `
${verb} element bridge kip senders { ${senders(addresses)} }
${ipv6Addresses.length === 0 ? "" : `${verb} element bridge kip senders6 { ${senders(ipv6Addresses)} }`}
${verb} element bridge kip receivers { "${device}" . ${mac} }
`;
}

/**
 * Rules of the bridge: machines only send from their own addresses, and only to allowed destinations. One transaction. The
 * entries of the machines stay.
 *
 * The kernel may lack connection tracking for bridges, as many do. So answers are distinguished from requests by TCP's flags,
 * and by a record of the host's UDP packets.
 */
export function bridgeRules(options: FilterOptions): string {
  return `${portSets}
add chain bridge kip arrive { type filter hook prerouting priority filter; }
add chain bridge kip across { type filter hook forward priority filter; }
add chain bridge kip depart { type filter hook postrouting priority filter; }
add chain bridge kip own
add chain bridge kip to_host
add set bridge kip host_asked { type ipv4_addr . inet_service . inet_service; flags dynamic,timeout; timeout 3m; size 65536; }
add set bridge kip host_asked_of { type ipv4_addr; flags dynamic,timeout; timeout 3m; size 65536; }
flush chain bridge kip arrive
flush chain bridge kip across
flush chain bridge kip depart
flush chain bridge kip own
flush chain bridge kip to_host
table bridge kip {
${arrivalChains(options)}
${forwardChain(options)}
${hostChain(options)}
${departureChain(options)}
}
`;
}

const unicast = "ether daddr & 01:00:00:00:00:00 == 00:00:00:00:00:00";

/** Packets from a machine must have its own addresses. */
function arrivalChains({ plan }: FilterOptions): string {
  return `
  chain arrive {
    iifname != "${hostLink}" goto own
    ether type ip ip saddr != ${plan.host} drop
    ${plan.ipv6 ? `ether type ip6 ip6 saddr != ${plan.ipv6.host} drop` : ""}
  }
  chain own {
    ether type arp iifname . ether saddr . arp saddr ip @senders iifname . arp saddr ether . arp saddr ip @senders accept
    ether type ip udp sport 67 drop
    ether type ip ip daddr 127.0.0.0/8 drop
    ether type ip ${unicast} iifname . ether saddr . ip saddr @senders accept
    ${plan.ipv6 ? `ether type ip6 ether daddr ${gatewayMac} iifname . ether saddr . ip6 saddr @senders6 accept` : ""}
    drop
  }`;
}

/** Packets between two devices of the bridge. There are none of IPv6, which is routed. */
function forwardChain({ plan, managementPorts }: FilterOptions): string {
  const management = portMatch("meta l4proto { tcp, udp } th dport", managementPorts);
  return `
  chain across {
    meta mark set ${bridgedMark}
    ether type ip6 drop
    oifname "${hostLink}" jump to_host
    iifname "${hostLink}" ether type ip update @host_asked { ip daddr . udp dport . udp sport }
    iifname "${hostLink}" ether type ip meta l4proto udp update @host_asked_of { ip daddr }
    ${managementPorts.length === 0 ? "" : `iifname != "${hostLink}" ip daddr ${plan.machines} ${management} drop`}
  }`;
}

/**
 * Packets to the host: to its open ports, and answers. The ports in the first fragment of a large answer decide whether it passes. Later
 * fragments have no ports. They pass from machines that the host has asked, and the host cannot use them without the first one.
 */
function hostChain({ plan, hostPorts }: FilterOptions): string {
  return `
  chain to_host {
    ether type arp accept
    ether type != ip drop
    ip daddr != ${plan.host} drop
    ip frag-off & 0x1fff != 0 ip protocol udp ip saddr @host_asked_of accept
    ip frag-off & 0x1fff != 0 drop
    ${hostPorts.length === 0 ? "" : `${portMatch("tcp dport", hostPorts)} accept`}
    tcp flags & (ack | rst) != 0 accept
    ip saddr . udp sport . udp dport @host_asked accept
    icmp type { echo-request, echo-reply, destination-unreachable, time-exceeded, parameter-problem } accept
    drop
  }`;
}

/** A machine gets no other protocols, and no packets for other machines. */
function departureChain({ plan }: FilterOptions): string {
  const multicast = "ether daddr & 01:00:00:00:00:00 != 00:00:00:00:00:00";
  return `
  chain depart {
    oifname "${hostLink}" accept
    ether type != { ip, arp${plan.ipv6 ? ", ip6" : ""} } drop
    ether type ip6 ${multicast} drop
    ${unicast} oifname . ether daddr != @receivers drop
  }`;
}

/**
 * Rules for forwarding in the namespace. The host can reach endpoints of Services. Machines can only reach the uplink, but none
 * of the closed destinations behind it. The gateway's port 53 is the uplink's DNS server.
 */
export function routingRules(options: FilterOptions): string {
  const { plan, hostAddresses, serviceRanges, metadataAddress, internet } = options;
  return `
add table ip kip
delete table ip kip
table ip kip {
  set closed {
    type ipv4_addr
    flags interval
    auto-merge
    elements = { ${closedDestinations(plan, hostAddresses)} }
  }
  chain input {
    type filter hook input priority 0; policy drop;
    iifname != "${bridgeDevice}" accept
    ct state established,related accept
    icmp type echo-request accept
    ip daddr ${plan.clusterDns} meta l4proto { tcp, udp } th dport 53 accept
    ${metadataAddress === undefined ? "" : `ip daddr ${metadataAddress} tcp dport 80 accept`}
  }
  chain through {
    type filter hook forward priority 0; policy drop;
    meta mark ${bridgedMark} accept
    iifname "${bridgeDevice}" oifname "${bridgeDevice}" ip saddr ${plan.host} ct status dnat accept
    ${refuseRules("ip", serviceRanges)}
    ct state established,related accept
    ${internet ? leaveRules(plan) : ""}
    reject with icmp type admin-prohibited
  }
  ${internet ? leaveChain() : ""}
  ${resolveChain(options)}
  ${relayChain(options)}
}
`;
}

/** Updates the closed destinations after the host's addresses have changed since {@link routingRules}. */
export function replaceClosed(plan: AddressPlan, hostAddresses: readonly string[]): string {
  return `
flush set ip kip closed
add element ip kip closed { ${closedDestinations(plan, hostAddresses)} }
`;
}

function closedDestinations(plan: AddressPlan, hostAddresses: readonly string[]): string {
  return [...closedNetworks, ...closedServices, plan.range, ...hostAddresses].join(", ");
}

function leaveRules(plan: AddressPlan): string {
  const toUplink = `iifname "${bridgeDevice}" oifname "${uplinkDevice}"`;
  return `
    ${toUplink} ip daddr ${plan.uplinkDns} meta l4proto { tcp, udp } th dport 53 accept
    ${toUplink} ip daddr != @closed accept
`;
}

/**
 * Redirects queries to the DNS servers, which listen at other addresses. Cells with their own rules reach the cluster's DNS
 * server through those. This is for cells without rules, and for the host while {@link CloudDriver.routeServices} is not
 * running.
 */
function resolveChain({ plan, internet, dnsService }: FilterOptions): string {
  const redirect = (from: string, to: string): string =>
    `ip daddr ${from} meta l4proto { tcp, udp } th dport 53 dnat to ${to}`;
  return `
  chain resolve {
    type nat hook prerouting priority dstnat;
    ${internet ? redirect(plan.gateway, plan.uplinkDns) : ""}
    ${dnsService === undefined ? "" : redirect(dnsService, plan.clusterDns)}
  }
`;
}

/**
 * Packets through {@link AddressPlan.relay} keep it as their source. The rules for Services give all other packets the
 * gateway's address. That is one of the node's, which every pod accepts.
 */
function relayChain({ plan }: FilterOptions): string {
  return `
  chain relay {
    type nat hook postrouting priority srcnat - 1;
    ct status dnat ct original ip saddr ${plan.host} ct original ip daddr ${plan.relay} snat to ${plan.relay}
  }
`;
}

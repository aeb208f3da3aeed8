import type { AddressPlan } from "./address-plan.ts";

/**
 * A machine's limits for the cluster's DNS server: UDP packets per second, and TCP connections. The server forwards at most
 * 8,000 queries at a time, each for up to 5 s. With these limits, one or two machines cannot use all of them.
 */
export const nameServerLimits = {
  packetsPerSecond: 500,
  burstPackets: 1000,
  connections: 64,
} as const;

/**
 * Rules of the namespace, before those that let packets in. They have a separate table. On kernels without such limits, DNS
 * works without them.
 */
export function nameServerRules({ clusterDns }: AddressPlan): string {
  const { packetsPerSecond, burstPackets, connections } = nameServerLimits;
  const rate = `limit rate over ${packetsPerSecond}/second burst ${burstPackets} packets`;
  return `
add table ip kip_names
delete table ip kip_names
table ip kip_names {
  set askers {
    type ipv4_addr
    flags dynamic,timeout
    timeout 1m
    size 65536
  }
  set connections {
    type ipv4_addr
    flags dynamic
    size 65536
  }
  chain input {
    type filter hook input priority filter - 5
    ip daddr ${clusterDns} udp dport 53 update @askers { ip saddr ${rate} } drop
    ip daddr ${clusterDns} tcp dport 53 ct state new add @connections { ip saddr ct count over ${connections} } reject with tcp reset
  }
}
`;
}

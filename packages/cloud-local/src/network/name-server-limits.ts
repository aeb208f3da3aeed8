import type { AddressPlan } from "./address-plan.ts";

/**
 * What one machine may ask of the cluster's name server, packets by UDP per second and connections by TCP. The server takes
 * 8,000 questions at once that it forwards, each for up to 5 s: one machine, or two, cannot use all of them.
 */
export const nameServerLimits = {
  packetsPerSecond: 500,
  burstPackets: 1000,
  connections: 64,
} as const;

/**
 * Rules of the namespace, ahead of those that let packets in. In a table of their own: where the kernel has no such limits,
 * names are found without.
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

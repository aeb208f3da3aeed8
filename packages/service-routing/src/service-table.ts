import { limits } from "@kip/network-view";
import { affinityMarks } from "./affinity-rules.ts";
import type { Family } from "./family.ts";
import { ofFamily } from "./family.ts";
import { rangeSet } from "./range-set.ts";
import type { RoutingPlace } from "./routing-place.ts";

/** The table with its sets and maps. It has no hooks, so it is not in force yet. */
export function emptyTable(table: string, family: Family, place: RoutingPlace): string {
  return `
add table ${table}
delete table ${table}
table ${table} {${serviceMaps(family)}${addressSets(family, place)}
  chain refuse {
    meta l4proto tcp reject with tcp reset
    reject
  }
}
`;
}

function serviceMaps({ type }: Family): string {
  const target = `${type} . inet_proto . inet_service`;
  return `
  map services {
    type ${target} : verdict
  }
  map endpoints {
    type ${target} . mark : ${type} . inet_service
  }
  map nodeports {
    type inet_proto . inet_service : verdict
  }
  map refused {
    type ${target} : verdict
  }
  map refused_nodeports {
    type inet_proto . inet_service : verdict
  }
  map firewall {
    type ${target} : verdict
  }`;
}

function addressSets(family: Family, place: RoutingPlace): string {
  const { type } = family;
  return `
  set cluster_ips {
    type ${type}
  }
  set pods {
    type ${type}
    ${elements(ofFamily(place.podAddresses, family))}
  }
  set nodes {
    type ${type}
    ${elements(ofFamily(place.nodeAddresses, family))}
  }
  set clients {
    type ${type}
    ${elements(ofFamily(place.clients ?? [], family))}
  }
  set service_ranges {
    type ${type}
    flags interval
    auto-merge
    ${elements(ofFamily(place.serviceRanges, family))}
  }`;
}

/**
 * The hooks of the table, which put it in force. Their priorities are those of kube-proxy.
 *
 * External packets that are routed to another machine get this machine's address as source, so that replies come back through this machine.
 * Packets of the pod to itself through a Service also get it, because no machine accepts packets from its own address.
 */
export function tableHooks(table: string, family: Family, place: RoutingPlace): string {
  const { ip, loopback } = family;
  const others = place.clients === undefined ? "" : `\n    ${ip} saddr != @clients return`;
  const target = `${ip} daddr . meta l4proto . th dport`;
  const own = ownPorts(place, family);
  const nodeport = "meta l4proto . th dport";
  const toOwn = `fib daddr type local ${ip} daddr != ${loopback}`;
  const translate = `
    ${own("return")}
    ${target} vmap @services
    ${toOwn} ${nodeport} vmap @nodeports
    ${ip} daddr @nodes ${nodeport} vmap @nodeports`;
  // Users who may write EndpointSlices may name any address and port. Drop packets that were translated to the machine's own ports, because they could bypass other protection of these.
  // A translated packet has the address of an endpoint. Another Service may have the same address as external IP. Its rules that refuse must not apply to the packet.
  const refuse = `
    ${own("drop", "ct status dnat ")}
    ct state != new accept
    ${own("accept")}
    ct status dnat ${ip} daddr != @cluster_ips ${ip} daddr != @service_ranges accept
    ${target} vmap @refused
    ${toOwn} ${nodeport} vmap @refused_nodeports
    ${ip} daddr @nodes ${nodeport} vmap @refused_nodeports
    ${ip} daddr @cluster_ips goto refuse
    ${ip} daddr @service_ranges drop`;
  return `
table ${table} {
  chain sources_in {
    type filter hook prerouting priority dstnat - 10
    ${own("return")}
    ct state new ${target} vmap @firewall
  }
  chain sources_out {
    type filter hook output priority -110
    ${own("return")}
    ct state new ${target} vmap @firewall
  }
  chain translate_in {
    type nat hook prerouting priority dstnat${others}${translate}
  }
  chain translate_out {
    type nat hook output priority -100${translate}
  }
  chain refuse_in {
    type filter hook input priority filter${refuse}
  }
  chain refuse_through {
    type filter hook forward priority filter${refuse}
  }
  chain refuse_out {
    type filter hook output priority filter${refuse}
  }
  chain own_source {
    type nat hook postrouting priority srcnat
    ct status dnat meta mark < ${limits.endpoints} meta mark set 0
    ct status dnat meta mark ${affinityMarks.first}-${affinityMarks.last} meta mark set 0
    ct status dnat ${ip} saddr @pods ${ip} daddr @pods masquerade
    ct status dnat fib saddr type != local ${ip} saddr != @pods ${ip} daddr != @pods masquerade fully-random
  }
}
`;
}

/** Rules for connections to the machine's own ports, and to those of machines behind it. They come before all Services. */
function ownPorts(
  { machinePorts = [], machineRanges = [] }: RoutingPlace,
  family: Family,
): (verdict: string, match?: string) => string {
  if (machinePorts.length === 0) return () => "";
  const ranges = ofFamily(machineRanges, family);
  const behind = ranges.length === 0 ? [] : [`${family.ip} daddr ${rangeSet(ranges)}`];
  const ports = `tcp dport { ${machinePorts.join(", ")} }`;
  return (verdict, match = "") =>
    ["fib daddr type local", ...behind]
      .map((to) => `${ports} ${match}${to} ${verdict}`)
      .join("\n    ");
}

function elements(list: readonly string[]): string {
  return list.length === 0 ? "" : `elements = { ${list.join(", ")} }`;
}

import { endpointText } from "@kip/network-view";
import type { StaleFlows } from "./connections/stale-flows.ts";
import { families, ofFamily, type Family } from "./family.ts";

/** A port of the machine that leads to a port of its pod. */
export interface HostPort {
  readonly protocol: "TCP" | "UDP" | "SCTP";
  readonly hostPort: number;
  readonly containerPort: number;
  /** The one address of the machine at which it answers. @default all of them, the loopback ones too */
  readonly hostIp?: string | undefined;
}

/** What host ports are made for. */
export interface HostPortsPlace {
  /** The pod's addresses, at most one of each family. */
  readonly podAddresses: readonly string[];
  /** The machine's end of the pod's cable. */
  readonly cable: string;
}

const table = "kip_host_ports";

/**
 * Commands of nft that lead the machine's ports to the pod, in place of those of before, as one transaction. Connections
 * that are open stay. It follows the CNI plugin `portmap`: what comes from elsewhere keeps its source; what the pod sends to
 * itself, and what the machine sends from a loopback address, gets the machine's own.
 *
 * The machine's end of the cable must let loopback addresses pass (`route_localnet`): the rules keep the pod itself from
 * using that.
 */
export function hostPortTables(ports: readonly HostPort[], place: HostPortsPlace): string {
  return families
    .flatMap((family) => {
      const [pod] = ofFamily(place.podAddresses, family);
      return pod === undefined ? [] : [tableOf(ports, { family, pod, cable: place.cable })];
    })
    .join("");
}

/**
 * Flows of UDP that the kernel must forget once the tables are in force. Those of clients that began to send before there was a pod are not
 * translated, and would stay so for as long as the clients go on. Flows to these ports at any address are forgotten, so this must be
 * done before the pod sends anything.
 */
export function staleHostPortFlows(
  ports: readonly HostPort[],
  podAddresses: HostPortsPlace["podAddresses"],
): readonly StaleFlows[] {
  return ports
    .filter(({ protocol }) => protocol === "UDP")
    .map(({ hostPort, containerPort, hostIp }) => ({
      address: hostIp,
      port: hostPort,
      serving: new Set(podAddresses.map((address) => endpointText(address, containerPort))),
      isUntranslatedStale: true,
    }));
}

function tableOf(
  ports: readonly HostPort[],
  to: { readonly family: Family; readonly pod: string; readonly cable: string },
): string {
  const { family, pod, cable } = to;
  const { ip, loopback } = family;
  // The kernel routes no packet from ::1 to another device, so no such packet is translated.
  const own = `fib daddr type local${ip === "ip6" ? ` ip6 daddr != ${loopback}` : ""}`;
  return `
add table ${ip} ${table}
delete table ${ip} ${table}
table ${ip} ${table} {
  chain lead {
    ${leadRules(ports, to).join("\n    ")}
  }
  chain lead_in {
    type nat hook prerouting priority dstnat - 5
    ${own} goto lead
  }
  chain lead_out {
    type nat hook output priority -105
    ${own} goto lead
  }
  chain no_loopback {
    type filter hook prerouting priority raw
    iifname "${cable}" ${ip} daddr ${loopback} drop
  }
  chain own_source {
    type nat hook postrouting priority srcnat - 5
    ct status dnat ${ip} saddr { ${loopback}, ${pod} } ${ip} daddr ${pod} masquerade
  }
}
`;
}

/** Rules for one address come first, as a rule for all addresses matches, too. */
function leadRules(
  ports: readonly HostPort[],
  { family, pod }: { readonly family: Family; readonly pod: string },
): readonly string[] {
  const { ip } = family;
  const target = ip === "ip6" ? `[${pod}]` : pod;
  return ports
    .flatMap((port) => {
      const { hostIp } = port;
      if (hostIp === undefined) return [{ ...port, match: "" }];
      const isOurs = ofFamily([hostIp], family).length > 0;
      return isOurs ? [{ ...port, match: `${ip} daddr ${hostIp} ` }] : [];
    })
    .sort((a, b) => b.match.length - a.match.length)
    .map(({ protocol, hostPort, containerPort, match }) => {
      const from = `meta l4proto ${protocol.toLowerCase()} th dport ${hostPort}`;
      return `${match}${from} dnat ${ip} to ${target}:${containerPort}`;
    });
}

import { endpointText } from "@kip/network-view";
import type { StaleFlows } from "./connections/stale-flows.ts";
import { families, ofFamily, type Family } from "./family.ts";

/** A port of the machine that is forwarded to a port of its pod. */
export interface HostPort {
  readonly protocol: "TCP" | "UDP" | "SCTP";
  readonly hostPort: number;
  readonly containerPort: number;
  /** The only address of the machine at which the port is open. @default all addresses, including loopback ones */
  readonly hostIp?: string | undefined;
}

/** The pod that host ports are for, and its network. */
export interface HostPortsPlace {
  /** The pod's addresses, at most one of each family. */
  readonly podAddresses: readonly string[];
  /** Name of the machine's end of the pod's cable. */
  readonly cable: string;
}

const table = "kip_host_ports";

/**
 * Commands of nft that forward ports of the machine to the pod. They replace earlier ones in one transaction, and open connections stay. The
 * rules correspond to the CNI plugin `portmap`. Packets from elsewhere keep their source address. Packets of the pod to itself, and packets of
 * the machine from a loopback address, get the machine's own address as source.
 *
 * The machine's end of the cable must route loopback addresses (`route_localnet`). The rules prevent the pod from using this.
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
 * UDP flows that the kernel must delete once the tables are in force. If a client began to send before there was a pod, its flow is not
 * translated, and would stay so while the client continues to send. Flows to these ports at any address are deleted, so this must be done
 * before the pod sends anything.
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
  // The kernel routes no packets from ::1 to another device, so do not translate such packets.
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

/** Rules for one address come first, because a rule for all addresses also matches there. */
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

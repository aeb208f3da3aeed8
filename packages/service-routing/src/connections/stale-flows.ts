import { parseEndpoint, type ServiceView } from "@kip/network-view";

/**
 * Connections that the kernel must forget: UDP has no end, so it would go on sending them where no endpoint is, and a
 * client that had met a Service without endpoints would go on missing those it has now. As with kube-proxy, a flow to an
 * endpoint that still serves stays, whatever leads new clients elsewhere.
 */
export interface StaleFlows {
  /** The destination that clients use; absent for NodePorts, which have several. */
  readonly address?: string | undefined;
  /** Port of the Service or of nodes. */
  readonly port: number;
  /** The endpoint that is gone; absent for connections that were not translated. */
  readonly endpoint?: { readonly address: string; readonly port: number } | undefined;
}

const none: ReadonlySet<string> = new Set();

/** What is stale when a Service changes; undefined stands for a Service that is not there. */
export function staleFlows(
  before: ServiceView | undefined,
  after: ServiceView | undefined,
): readonly StaleFlows[] {
  const old = udpTargets(before);
  const now = udpTargets(after);
  const result: StaleFlows[] = [];
  for (const [key, { address, port }] of new Map([...old, ...now])) {
    const was = old.get(key)?.endpoints ?? none;
    const is = now.get(key)?.endpoints ?? none;
    for (const text of was) {
      const endpoint = is.has(text) ? undefined : parseEndpoint(text);
      if (endpoint)
        result.push({
          address,
          port,
          endpoint: { address: endpoint.address, port: endpoint.port },
        });
    }
    if (was.size === 0 && is.size > 0) result.push({ address, port });
  }
  return result;
}

interface UdpTarget {
  readonly address?: string;
  readonly port: number;
  readonly endpoints: ReadonlySet<string>;
}

function udpTargets(view: ServiceView | undefined): ReadonlyMap<string, UdpTarget> {
  const result = new Map<string, UdpTarget>();
  if (!view) return result;
  const addresses = [
    ...view.clusterIps,
    ...(view.externalIps ?? []),
    ...(view.loadBalancerIps ?? []),
  ];
  for (const {
    protocol,
    port,
    nodePort,
    endpoints,
    localEndpoints,
    servingEndpoints,
  } of view.ports) {
    if (protocol !== "UDP") continue;
    const all = new Set([...endpoints, ...(localEndpoints ?? []), ...(servingEndpoints ?? [])]);
    if (nodePort !== undefined) result.set(`/${nodePort}`, { port: nodePort, endpoints: all });
    for (const address of addresses) {
      const isIpv6 = address.includes(":");
      const usable = [...all].filter((endpoint) => endpoint.startsWith("[") === isIpv6);
      result.set(`${address}/${port}`, { address, port, endpoints: new Set(usable) });
    }
  }
  return result;
}
